#pragma once
// Files without surprises: every path is opened relative to a held directory, close-on-exec, and writing is
// temp + rename. Reading never waits for a writer: a named pipe in a file's place is refused. A Dir is a resource
// (movable, not copyable). No thread affinity.
//
// `relative` must stay below: not empty, not absolute, no "..". Reading follows links (a mounted ConfigMap is made of
// them, /proc and /sys too). What changes something follows none, neither on the way nor at the end, so that nobody who
// can write into a directory can lead us out of it. What is written is not synced to disk unless Sync says so: nearly
// all of it is made anew at a start, or lies on a tmpfs, and a power failure ends the tenants that it is about.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::host {

// kYes: file and directory are on the disk when the call returns, so that a power failure leaves the old or the new
// content. It waits for the disk.
enum class Sync { kNo, kYes };

class Dir {
 public:
  static Result<Dir> open(const std::string& path);                        // must exist
  static Result<Dir> create(const std::string& path, mode_t mode = 0755);  // with parents; `mode` whatever the umask
  Result<Dir> make_subdir(std::string_view relative, mode_t mode = 0755) const;  // with parents; existing is fine

  // A regular file's whole content; kInvalid when it is longer than the limit or something else than a file.
  Result<std::string> read(std::string_view relative, std::size_t limit = 1 << 20) const;
  Status write_atomically(std::string_view relative, std::string_view content, mode_t mode = 0644,
                          Sync sync = Sync::kNo) const;
  Status remove(std::string_view relative) const;  // a file, socket or link; absent is fine
  // With everything below; absent is fine. Never follows links and never enters another mount: what is mounted there is
  // somebody else's, and the call fails.
  Status remove_tree(std::string_view relative) const;
  Status hard_link(std::string_view from_path, std::string_view relative) const;  // replaces what is there, atomically
  Result<std::vector<std::string>> list() const;                                  // names, sorted
  bool exists(std::string_view relative) const;                                   // follows links

  const std::string& path() const { return path_; }  // as it was opened: for messages
  int fd() const { return fd_.get(); }               // O_PATH: to start from, not to read

 private:
  Dir(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

// Whether both names are hard links to one file. Follows no final link; a name that is not there is the same as
// nothing.
bool same_file(const std::string& a, const std::string& b);

// Also from a pipe without a name or a terminal (`-f <(…)`), where it blocks until the end of the input; kInvalid for a
// named pipe.
Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);

}  // namespace tranche::host
