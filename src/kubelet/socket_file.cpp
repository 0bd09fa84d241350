#include "kubelet/socket_file.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/text.h"
#include "os/files/files.h"
#include "os/socket/unix_socket.h"

namespace tranche::kubelet {
namespace {

constexpr std::string_view kTemporary = ".t";
// The longest time from a socket's name to its listener: two system calls, between which the kernel may run other
// processes. A restarted container takes longer to get here, so a killed server's socket is older.
constexpr Duration kBeingMade = std::chrono::milliseconds(50);

// `is_left`: whether a file of this name may be one that a killed process left.
template <class IsLeft>
void remove_unanswered(const std::string& directory, IsLeft is_left) {
  for (const auto& name : os::names_in(directory)) {
    const std::string path = directory + "/" + name;
    if (is_left(name) && look_at_socket(path) && !probe_listener(path).alive) ::unlink(path.c_str());
  }
}

std::string mark_of(const std::string& socket_name) {
  return fmt::format("{:04x}", stable_hash(socket_name) & 0xffffU);
}

}  // namespace

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

std::string temporary_socket_name(const std::string& socket_name, MonoTime now) {
  return fmt::format(".t{:x}{}", now.time_since_epoch().count(), mark_of(socket_name));
}

void remove_left_over_sockets(const std::string& directory, const std::string& socket_name, MonoTime now) {
  remove_unanswered(directory, [mark = mark_of(socket_name), now](const std::string& name) {
    if (!name.starts_with(kTemporary) || name.size() <= kTemporary.size() + mark.size() || !name.ends_with(mark))
      return false;
    MonoTime::rep made = 0;
    const char* last = name.data() + name.size() - mark.size();
    const auto read = std::from_chars(name.data() + kTemporary.size(), last, made, 16);
    if (read.ec != std::errc{} || read.ptr != last) return false;
    const MonoTime then{MonoTime::duration(made)};
    return then > now || now - then >= kBeingMade;  // after a restart of the machine `then` is ahead of us
  });
}

void remove_deserted_sockets(const std::string& directory, std::string_view begin, std::string_view end) {
  remove_unanswered(directory, [begin, end](const std::string& name) {
    return name.size() >= begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
  });
}

Listener probe_listener(const std::string& path) {
  const auto connected = os::connect_to(path, /*blocking=*/false);
  if (!connected)
    return {.alive = connected.error().code == EAGAIN, .pid = 0};  // its queue is full: a process holds it
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(connected->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer.pid = 0;
  return {.alive = true, .pid = peer.pid};
}

}  // namespace tranche::kubelet
