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

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
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
bool is_mounted(const std::string& path);
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

// --- kept for the next start ---------------------------------------------------------------------------------------

// Files that a program keeps for its own next start (docs/reference/paths.md, "State across restarts"). One that cannot
// be read is put aside under `<name>.unreadable`: what it said is lost and nothing else, the next write finds its place
// free, and an operator can look at it.

inline constexpr const char* kAsideSuffix = ".unreadable";

struct KeptFile {
  std::optional<std::string> text;  // absent: the file does not exist, or was put aside
  std::string lost;                 // what was lost, why, and the file's new name; "" = nothing
};

// Returns whole lines only: all our files end with a line end, so a last line without one is truncated. Follows no
// link.
KeptFile read_kept(const Dir& folder, const std::string& name, std::size_t limit = 1 << 20);

// write_atomically(), also if a directory is at the file's path: the directory is put aside.
Status write_kept(const Dir& folder, const std::string& name, std::string_view text, mode_t mode,
                  Sync sync = Sync::kNo);

// Identifies the current boot of the machine, for records that a reboot makes invalid. "": the kernel reports none.
std::string boot_id();

// Removes what writes that were killed left in `folder`: the temporary files of names for which `ours` is true. A write
// of another process that is under way fails.
void remove_temporaries(const Dir& folder, const std::function<bool(std::string_view name)>& ours);

// For a file that was read and makes no sense to its reader. Returns KeptFile::lost. Replaces what was put aside
// before.
std::string put_aside(const Dir& folder, const std::string& name, const std::string& why);

// --- which directory a process sees ----------------------------------------------------------------------------------

// Which directory a process sees at a path, in a time that no tenant chooses. Its mount table would say so too, but the
// kernel builds the path of each mount's root directory, also of those that it then leaves out, because they are not
// below the root directory of the process: with 50 volume mounts of a directory that a tenant has moved 150,000 levels
// down, a table takes 0.8 s and has no text. A directory is compared by file system and number, since a process may
// have files of its own under any name. Any thread.

struct DirectoryId {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const DirectoryId&, const DirectoryId&) = default;
};

// `process`: its folder in /proc, or that of a thread. `path`: absolute. kNotFound: it sees no directory there, or a
// part of the path is a link. kUnavailable: the kernel does not have the path in its caches now, as it has that of each
// mount. From Linux 5.12 on, no file system is asked, because a tenant's own may never answer. kDenied: that needs
// SYS_PTRACE, or search permission for the directories.
Result<DirectoryId> directory_seen_by(const std::string& process, std::string_view path);

// The name in `parent` of this directory; absent: it is not there (any more).
std::optional<std::string> name_of_directory(const Dir& parent, const DirectoryId& directory);

}  // namespace tranche::os
