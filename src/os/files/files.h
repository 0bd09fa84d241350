#pragma once
// Safe file access: every path is opened relative to a held directory, close-on-exec, and writing is temp + rename.
// Reading never waits for a writer: a named pipe in a file's place is refused. A Dir is a resource (movable, not
// copyable). No thread affinity.
//
// `relative` must stay below the directory: not empty, not absolute, no "..". Reading follows links (a mounted
// ConfigMap consists of them, and so do /proc and /sys). Changes follow no link, neither on the way nor at the end, so
// that a process that can write into a directory cannot redirect them. Written files are not synced to disk unless Sync
// says so: nearly all of them are created again at each start, or are on a tmpfs, and a power failure also ends the
// tenants that they describe.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::os {

// kYes: file and directory are on the disk when the call returns, so that a power failure leaves the old or the new
// content. The call waits for the disk.
enum class Sync { kNo, kYes };

class Dir {
 public:
  static Result<Dir> open(const std::string& path);  // must exist
  static Result<Dir> create(const std::string& path,
                            mode_t mode = 0755);  // with parents; sets `mode` despite the umask
  Result<Dir> make_subdir(std::string_view relative, mode_t mode = 0755) const;  // existing is fine

  // The whole content of a regular file; kInvalid if it is longer than the limit or not a regular file.
  Result<std::string> read(std::string_view relative, std::size_t limit = 1 << 20) const;
  Status write_atomically(std::string_view relative, std::string_view content, mode_t mode = 0644,
                          Sync sync = Sync::kNo) const;
  Status remove(std::string_view relative) const;  // a file, socket or link; absent is fine
  // Removes a directory and everything below it; absent is fine. Never follows links and never enters another mount:
  // its files may belong to another owner, so the call fails.
  Status remove_tree(std::string_view relative) const;
  Status hard_link(std::string_view from_path,
                   std::string_view relative) const;  // atomically replaces an existing file
  Result<std::vector<std::string>> list() const;      // names, sorted
  bool exists(std::string_view relative) const;       // follows links

  const std::string& path() const { return path_; }  // as opened, for messages
  int fd() const { return fd_.get(); }               // O_PATH: to start from, not to read

 private:
  Dir(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

// The names in a directory, sorted; none if it cannot be listed.
std::vector<std::string> names_in(const std::string& directory);

struct PathParts {
  std::string directory;  // "." for a path without a slash
  std::string name;
};
PathParts parts_of(const std::string& path);
// `path`, which begins with "/", below the directory `root`, which may end with "/". No link is resolved.
std::string under_root(std::string root, std::string_view path);

// Also reads from an unnamed pipe or a terminal (`-f <(…)`), and blocks until the end of the input; kInvalid for a
// named pipe.
Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);

// Makes `path` a link to `target` and atomically replaces a file or link there, so that a reader always finds one;
// kConflict if it is a directory.
Status put_link(const std::string& target, const std::string& path);

// The target of the link at `path`, as written; kNotFound if nothing is there, kInvalid if it is not a link.
Result<std::string> read_link(const std::string& path);

// Whether something is mounted at `path`, of which no link is followed at its end.
bool is_mounted(std::string path);
// Whether both names resolve to the same file.
bool lead_to_one_file(const std::string& a, const std::string& b);

// A lock on a file that one process of the node has at a time. It ends with the process, also if that is killed. As of
// fcntl(2), it is the process's and not the descriptor's: a second FileLock of the same file in one process is not
// refused, and its end frees the first. Closing the file, also by a process that ends, is reported to watches of its
// folder (os/files/watch.h).
class FileLock {
 public:
  // Makes the file, mode 0600, if it is absent. Follows no link.
  static Result<FileLock> open(const std::string& path);

  Result<bool> take();  // false: a different process has it
  void free();          // the file stays open: no watch sees it
  bool taken() const { return taken_; }
  const Fd& file() const { return file_; }

 private:
  FileLock(Fd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Fd file_;
  std::string path_;
  bool taken_ = false;
};

}  // namespace tranche::os
