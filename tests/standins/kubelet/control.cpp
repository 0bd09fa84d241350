#include "standins/kubelet/control.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace tranche::sim {
namespace {

constexpr std::size_t kLongestCommand = 8192;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(Kind::kInvalid, "a socket's path has 1 to 107 characters: choose a shorter directory", path);
  }
  path.copy(address.sun_path, path.size());
  return address;
}

// The answers are small and the peer waits for them; a peer that does not read loses the rest.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<Control>> Control::open(EventLoop& loop, const std::string& path, Command command) {
  TRY(const sockaddr_un address, address_of(path));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "cannot create", "a socket"));
  ::unlink(path.c_str());
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 8) != 0) {
    const int err = errno;
    ::close(fd);
    return std::unexpected(error_from_errno(err, "cannot listen", path));
  }
  return std::unique_ptr<Control>(new Control(loop, path, fd, std::move(command)));
}

Control::Control(EventLoop& loop, std::string path, int fd, Command command)
    : loop_(loop), path_(std::move(path)), fd_(fd), command_(std::move(command)) {
  loop_.watch(fd_, [this] { accept(); });
}

Control::~Control() {
  while (!connections_.empty()) close(connections_.begin()->first);
  loop_.forget(fd_);
  ::close(fd_);
  ::unlink(path_.c_str());
}

void Control::accept() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const std::uint64_t number = ++accepted_;
  connections_[number].fd = fd;
  loop_.watch(fd, [this, number] { read(number); });
}

void Control::read(std::uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  std::array<char, 4096> buffer;
  const ssize_t got = ::recv(found->second.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return close(number);
  found->second.unread.append(buffer.data(), static_cast<std::size_t>(got));
  while (true) {
    const auto connection = connections_.find(number);  // a command may have closed it
    if (connection == connections_.end()) return;
    std::string& unread = connection->second.unread;
    const auto end = unread.find('\n');
    if (end == std::string::npos) {
      if (unread.size() > kLongestCommand) close(number);
      return;
    }
    const std::string line = unread.substr(0, end);
    unread.erase(0, end + 1);
    command_(line, [this, number](std::string text) { answer(number, text); });
  }
}

void Control::answer(std::uint64_t number, const std::string& text) {
  const auto found = connections_.find(number);
  if (found != connections_.end() && !write_all(found->second.fd, text + "\n")) close(number);
}

void Control::close(std::uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  loop_.forget(found->second.fd);
  ::close(found->second.fd);
  connections_.erase(found);
}

int send_command(const std::string& path, const std::string& line) {
  const auto address = address_of(path);
  const int fd = address ? ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    const Error error = address ? error_from_errno(errno, "cannot reach", path) : address.error();
    std::fprintf(stderr, "sim-kubelet: %s\n", to_string(error).c_str());
    if (fd >= 0) ::close(fd);
    return 1;
  }
  write_all(fd, line + "\n");
  std::string answer;
  std::array<char, 4096> buffer;
  const auto complete = [&] {
    const auto last = answer.rfind('\n', answer.size() < 2 ? 0 : answer.size() - 2);
    const std::string_view line_end = std::string_view(answer).substr(last == std::string::npos ? 0 : last + 1);
    return answer.ends_with('\n') && (line_end == "ok\n" || line_end.starts_with("error: "));
  };
  ssize_t got = 0;
  while (!complete() && (got = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0) {
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  std::fputs(answer.c_str(), stdout);
  return answer.ends_with("ok\n") ? 0 : 1;
}

}  // namespace tranche::sim
