#include "host/kubelet/socket_file.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host/loop/fd.h"

namespace tranche::host {

std::optional<SocketFile> look_at_socket(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return std::nullopt;
  return SocketFile{info.st_dev, info.st_ino, info.st_ctim.tv_sec * 1'000'000'000LL + info.st_ctim.tv_nsec};
}

Status check_socket_path(const std::string& path) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kLongest) return {};
  return fail(
      Kind::kInvalid,
      fmt::format("the path of a unix socket may be {} characters long, but this one has {}; use a directory with "
                  "a shorter name",
                  kLongest, path.size()),
      path);
}

Listener probe_listener(const std::string& path) {
  if (!check_socket_path(path)) return {};
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return {.alive = errno == EAGAIN, .pid = 0};  // EAGAIN: its queue is full, so somebody holds it
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer.pid = 0;
  return {.alive = true, .pid = peer.pid};
}

}  // namespace tranche::host
