#pragma once
// Unix sockets by path; stream sockets where no other type is given.
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::os {

Result<sockaddr_un> unix_address(const std::string& path);  // kInvalid when the path does not fit (unix(7): 107 bytes)

// A listening socket, mode 0600. Replaces a socket file on which no program answers, and nothing else.
Result<Fd> listen_at(const std::string& path, int type = SOCK_STREAM);

// The same, but takes the path from the program that listens there, or from any other file, including a directory. The
// path exists at every moment.
Result<Fd> listen_in_place_of(const std::string& path, int type = SOCK_STREAM, mode_t mode = 0600);

// A connected socket, non-blocking.
Result<Fd> connect_to(const std::string& path, int type = SOCK_STREAM);

// --- what lies at the path of a socket, and whether a process answers there. Never blocks ----------------------------

// A bound socket keeps its inode alive even after the file was unlinked, so for as long as we serve no other file can
// have our inode number: dev + inode say "ours" with certainty.
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

}  // namespace tranche::os
