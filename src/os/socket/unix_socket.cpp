#include "os/socket/unix_socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace tranche::os {
namespace {

constexpr int kBacklog = 128;

Result<Fd> new_socket(int type, const std::string& path) {
  Fd fd(::socket(AF_UNIX, SOCK_CLOEXEC | SOCK_NONBLOCK | type, 0));
  if (!fd) return fail_errno("cannot make a socket", path);
  return fd;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Sets the mode before bind(), which applies it to the file (Linux): other users can never connect.
int bind_private(int fd, const sockaddr_un& address) {
  if (::fchmod(fd, 0600) != 0) return errno;
  return ::bind(fd, generic(address), sizeof address) == 0 ? 0 : errno;
}

// Removes the socket of a killed program.
Status clear_stale(const std::string& path, int type) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return fail(Kind::kConflict, "cannot listen: something that is not a socket is in the way; move it away", path);
  }
  const auto connected = connect_to(path, type);
  if (connected || connected.error().code == EAGAIN) {
    return fail(Kind::kConflict, "cannot listen: another program answers there; stop it or choose another path", path);
  }
  if (connected.error().code != ECONNREFUSED) return std::unexpected(connected.error());
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("cannot remove an old socket", path);
  return {};
}

}  // namespace

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail(Kind::kInvalid, "the path of a socket is empty or contains a zero byte", path);
  }
  if (path.size() >= sizeof address.sun_path) {
    return fail(Kind::kInvalid,
                "the path of a socket is longer than the " + std::to_string(sizeof address.sun_path - 1) +
                    " bytes that the kernel accepts; choose a shorter directory",
                path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> listen_in_place_of(const std::string& path, int type, mode_t mode) {
  const std::string newer = path + "." + std::to_string(::getpid());
  TRY(Fd fd, listen_at(newer, type));
  if (::chmod(newer.c_str(), mode) != 0 || ::rename(newer.c_str(), path.c_str()) != 0) {
    int err = errno;
    // Only a directory cannot be replaced: it is exchanged with the socket and then removed.
    if (err == EISDIR) {
      if (::renameat2(AT_FDCWD, newer.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
        std::error_code ignored;
        std::filesystem::remove_all(newer, ignored);
        return fd;
      }
      err = errno;
    }
    ::unlink(newer.c_str());
    return fail_errno("cannot listen", path, err);
  }
  return fd;
}

Result<Fd> listen_at(const std::string& path, int type) {
  TRY(const auto address, unix_address(path));
  TRY(Fd fd, new_socket(type, path));
  int err = bind_private(fd.get(), address);
  if (err == EADDRINUSE) {
    TRY_STATUS(clear_stale(path, type));
    err = bind_private(fd.get(), address);
  }
  if (err != 0) return fail_errno("cannot listen", path, err);
  if (::listen(fd.get(), kBacklog) != 0) return fail_errno("cannot listen", path);
  return fd;
}

Result<Fd> connect_to(const std::string& path, int type) {
  TRY(const auto address, unix_address(path));
  TRY(Fd fd, new_socket(type, path));
  if (::connect(fd.get(), generic(address), sizeof address) != 0) return fail_errno("cannot connect", path);
  return fd;
}

std::optional<SocketFile> look_at_socket(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return std::nullopt;
  return SocketFile{info.st_dev, info.st_ino, info.st_ctim.tv_sec * 1'000'000'000LL + info.st_ctim.tv_nsec};
}

Listener probe_listener(const std::string& path) {
  const auto connected = connect_to(path);
  if (!connected)
    return {.alive = connected.error().code == EAGAIN, .pid = 0};  // its queue is full: a process holds it
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(connected->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer.pid = 0;
  return {.alive = true, .pid = peer.pid};
}

}  // namespace tranche::os
