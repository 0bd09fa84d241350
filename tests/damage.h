#pragma once
// What may become of a file between two starts: cut by a power failure, written over by hand, replaced by something
// that is not a file. For tests that a program survives each of them with the loss of that fact only.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace tranche {

struct Damage {
  std::string name;
  std::function<void(const std::string& path)> spoil;
};

inline std::vector<Damage> all_damage() {
  namespace fs = std::filesystem;
  const auto gone = [](const std::string& path) { fs::remove_all(path); };
  const auto text = [gone](std::string content) {
    return [gone, content = std::move(content)](const std::string& path) {
      gone(path);
      std::ofstream(path, std::ios::binary) << content;
    };
  };
  std::string garbage;
  for (unsigned i = 0, x = 2463534242u; i < 3000; ++i) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    garbage += static_cast<char>(x);
  }
  std::string others;
  for (int i = 0; i < 1000; ++i) others += "GPU-x x x x x 5 5\n";
  return {
      {"empty", text("")},
      {"garbage", text(garbage)},
      {"zeros", text(std::string(4096, '\0'))},
      {"cut in half",
       [](const std::string& path) {
         std::error_code none;
         const auto size = fs::file_size(path, none);
         if (!none) fs::resize_file(path, size / 2);
       }},
      {"20 MB", text(std::string(20 << 20, 'x'))},
      {"a directory",
       [gone](const std::string& path) {
         gone(path);
         fs::create_directories(path + "/below");
       }},
      {"a named pipe",
       [gone](const std::string& path) {
         gone(path);
         ::mkfifo(path.c_str(), 0600);
       }},
      {"a dangling link",
       [gone](const std::string& path) {
         gone(path);
         fs::create_symlink("/no/such/file", path);
       }},
      {"a link to /etc/passwd",
       [gone](const std::string& path) {
         gone(path);
         fs::create_symlink("/etc/passwd", path);
       }},
      {"without any rights", [](const std::string& path) { ::chmod(path.c_str(), 0); }},
      {"JSON null", text("null")},
      {"a JSON list", text("[]")},
      {"deep JSON", text(std::string(100000, '['))},
      {"lines of another file", text(others)},
  };
}

}  // namespace tranche
