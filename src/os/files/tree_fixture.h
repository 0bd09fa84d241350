#pragma once
// A tree of files, links and device nodes in a directory of the test.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "os/files/scratch_fixture.h"

namespace tranche::os {

class Tree {
 public:
  std::string path(const std::string& name = "") const { return scratch_.path() + name; }

  void directory(const std::string& name) const { std::filesystem::create_directories(path(name)); }
  void file(const std::string& name, const std::string& text = "x", bool program = false) const {
    parents(name);
    std::ofstream(path(name)) << text;
    if (program) ::chmod(path(name).c_str(), 0755);
  }
  void link(const std::string& name, const std::string& target) const {
    parents(name);
    std::filesystem::create_symlink(target, path(name));
  }
  // Creates a harmless character device (/dev/null under another name). False if that is not permitted.
  bool node(const std::string& name) const {
    parents(name);
    return ::mknod(path(name).c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  }

 private:
  void parents(const std::string& name) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
  }
  Scratch scratch_;
};

}  // namespace tranche::os
