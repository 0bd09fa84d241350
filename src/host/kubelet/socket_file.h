#pragma once
// What lies at the path of a unix socket, and whether anybody answers there. A bound socket keeps its inode alive even
// after the file was unlinked, so for as long as we serve no other file can have our inode number: dev + inode say
// "ours" with certainty. No thread affinity; never blocks.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace tranche::host {

struct SocketFile {
  dev_t device = 0;
  ino_t inode = 0;
  std::int64_t changed_ns = 0;  // ctime: tells a re-created file even where the inode number came back

  bool same_file(const SocketFile& other) const { return device == other.device && inode == other.inode; }
  friend bool operator==(const SocketFile&, const SocketFile&) = default;
};

// Nothing when there is no socket at this path (also for other kinds of files).
std::optional<SocketFile> look_at_socket(const std::string& path);

struct Listener {
  bool alive = false;
  pid_t pid = 0;  // who listens; 0 when it is in a process namespace that we cannot see
};
Listener probe_listener(const std::string& path);

// sun_path ends the same way for everybody: 107 characters.
Status check_socket_path(const std::string& path);

}  // namespace tranche::host
