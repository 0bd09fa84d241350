#pragma once
// What lies at the path of a unix socket, and whether a process answers there. A bound socket keeps its inode alive
// even after the file was unlinked, so for as long as we serve no other file can have our inode number: dev + inode say
// "ours" with certainty. No thread affinity; never blocks.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace tranche::kubelet {

struct SocketFile {
  dev_t device = 0;
  ino_t inode = 0;
  std::int64_t changed_ns = 0;  // ctime: differs for a re-created file even where the inode number is the same

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

// A socket is served under a name of its own and then renamed, so that no client finds one that does not answer yet. Of
// a process that was killed in between the name stays. The number in it is the time, one count for all processes of the
// node; the last four digits are the resource's: no two servers choose the same.
std::string temporary_socket_name(const std::string& socket_name, MonoTime now);
// Removes what killed servers of this socket left in its directory: names of an earlier time at which no process
// answers.
void remove_left_over_sockets(const std::string& directory, const std::string& socket_name, MonoTime now);

// Removes sockets in a directory whose names begin and end so, and at which no process answers: what killed processes
// left.
void remove_deserted_sockets(const std::string& directory, std::string_view begin, std::string_view end);

// sun_path ends the same way for everybody: 107 characters.
Status check_socket_path(const std::string& path);

}  // namespace tranche::kubelet
