#pragma once
// Unix sockets by path; stream sockets where no other type is given.
#include <sys/socket.h>
#include <sys/un.h>

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

// A connected socket: non-blocking, or blocking for at most the time in SO_SNDTIMEO and SO_RCVTIMEO.
Result<Fd> connect_to(const std::string& path, bool blocking, long timeout_us = 0, int type = SOCK_STREAM);

}  // namespace tranche::os
