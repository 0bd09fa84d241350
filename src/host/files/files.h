#pragma once
// Files without surprises: every path is opened relative to a held directory, close-on-exec, and writing is
// temp + rename. A Dir is a resource (movable, not copyable). No thread affinity.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tranche::host {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

class Dir {
 public:
  static Result<Dir> open(const std::string& path);                       // must exist
  static Result<Dir> create(const std::string& path, mode_t mode = 0755);  // with parents
  Result<Dir> subdir(std::string_view relative) const;                    // opened without following a final link
  Result<Dir> make_subdir(std::string_view relative, mode_t mode = 0755) const;

  Result<std::string> read(std::string_view relative, std::size_t limit = 1 << 20) const;  // kInvalid when longer
  Status write_atomically(std::string_view relative, std::string_view content, mode_t mode = 0644) const;
  Status remove(std::string_view relative) const;       // a file, socket or link; absent is fine
  Status remove_tree(std::string_view relative) const;  // never follows links; absent is fine
  Status hard_link(std::string_view from_path, std::string_view relative) const;  // replaces what is there, atomically
  Result<std::vector<std::string>> list() const;        // names, sorted
  bool exists(std::string_view relative) const;

  const std::string& path() const { return path_; }     // as it was opened: for messages
  int fd() const { return fd_.get(); }

 private:
  Dir(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);

}  // namespace tranche::host
