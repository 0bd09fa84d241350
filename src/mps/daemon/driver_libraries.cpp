#include "mps/daemon/driver_libraries.h"

#include <array>
#include <filesystem>
#include <map>

#include "os/files/files.h"
#include "os/files/links.h"

namespace tranche::host {
namespace {

constexpr std::array kFolders{"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64",
                              "/usr/local/nvidia/lib64"};

// Name → path; of two files with the same name, the first folder's counts.
std::map<std::string, std::string> libraries_below(const std::string& root) {
  std::map<std::string, std::string> found;
  for (const char* folder : kFolders) {
    std::error_code error;
    std::filesystem::directory_iterator entries(root + folder, error);
    for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
      const std::string name = entries->path().filename().string();
      if (is_driver_library(name)) found.emplace(name, entries->path().string());
    }
  }
  return found;
}

}  // namespace

bool is_driver_library(const std::string& name) {
  const bool drivers =
      name.starts_with("libcuda.") || name.starts_with("libcudadebugger.") || name.starts_with("libnvidia-");
  return drivers && name.find(".so") != std::string::npos;
}

Result<std::string> link_driver_libraries(const std::string& driver_root, const std::string& folder,
                                          const std::string& named) {
  std::string root = driver_root;
  while (root.ends_with('/')) root.pop_back();
  if (root.empty()) return std::string();
  const auto libraries = libraries_below(root);
  if (libraries.empty()) return std::string();
  TRY(const auto dir, Dir::create(folder, 0755));
  TRY(const auto there, dir.list());
  for (const auto& name : there)
    if (!libraries.contains(name)) TRY_STATUS(dir.remove(name));
  for (const auto& [name, place] : libraries) {
    const std::string path = folder + "/" + name;
    const std::string target = named + place.substr(root.size());
    if (const auto leads = read_link(path); leads && *leads == target) continue;
    TRY_STATUS(put_link(target, path));
  }
  return folder;
}

std::string library_path(const std::string& folder, const std::string& there) {
  if (folder.empty() || there.empty()) return folder + there;
  return folder + ":" + there;
}

}  // namespace tranche::host
