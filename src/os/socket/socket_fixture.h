#pragma once
// For tests: sockets in the file system.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "os/loop/fd.h"

namespace tranche::os {

inline sockaddr_un address_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

inline void bind_at(int fd, const std::string& path) {
  const sockaddr_un address = address_at(path);
  EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
}

inline int connect_at(int fd, const std::string& path) {
  const sockaddr_un address = address_at(path);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// Without a backlog the socket is bound and does not listen.
inline Fd socket_at(const std::string& path, int backlog = 0, int type = SOCK_STREAM) {
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  bind_at(fd.get(), path);
  if (backlog > 0) {
    EXPECT_EQ(::listen(fd.get(), backlog), 0);
  }
  return fd;
}

}  // namespace tranche::os
