#pragma once
// A directory tree that is the root of another system (a driver container, the host seen through a mount): links,
// including absolute ones, are resolved within that root and never lead out of it. Implemented without
// openat2(RESOLVE_IN_ROOT), which older kernels on GPU nodes lack. Read-only. No thread affinity.
#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::os {

class RootView {
 public:
  static Result<RootView> open(const std::string& path);  // "" is "/"

  struct Place {
    std::string path;  // absolute in the root, without links
    mode_t mode = 0;
    bool is_directory() const { return S_ISDIR(mode); }
    bool is_file() const { return S_ISREG(mode); }
    bool is_program() const { return S_ISREG(mode) && (mode & 0111) != 0; }
    bool is_char_device() const { return S_ISCHR(mode); }
  };
  // Where `path` leads; absent if there is nothing, or after 40 links.
  std::optional<Place> look(std::string_view path) const;
  // The target text of the link at `path`; absent if there is none.
  std::optional<std::string> link_text(std::string_view path) const;
  std::vector<std::string> list(std::string_view directory) const;  // names, sorted; empty if it cannot be read
  // Existing paths that match; * ? [ ] match within one name (as in a shell). Sorted.
  std::vector<std::string> matching(const std::string& pattern) const;
  Result<std::string> read(std::string_view path, std::size_t limit = 1 << 20) const;

  const std::string& path() const { return path_; }

 private:
  struct Walked {
    std::string path;
    Fd fd;  // O_PATH
    mode_t mode = 0;
  };
  std::optional<Walked> walk(std::string_view path, bool follow_last) const;

  RootView(Fd root, std::string path) : root_(std::move(root)), path_(std::move(path)) {}
  Fd root_;
  std::string path_;
};

}  // namespace tranche::os
