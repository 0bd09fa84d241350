#include "standins/mps/wire.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

namespace tranche::sim {
namespace {

constexpr std::size_t kLargest = 128 * 1024;  // a reply that lists 48 clients on 16 GPUs is far below

// Values may contain line ends (replies do), so they are escaped.
void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
    } else {
      out += text[++i] == 'n' ? '\n' : text[i];
    }
  }
  return out;
}

bool address_of(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof address->sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  std::memcpy(address->sun_path, path.c_str(), path.size() + 1);
  return true;
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::string Message::text(const std::string& key) const {
  const auto found = fields.find(key);
  return found == fields.end() ? std::string() : found->second;
}

std::int64_t Message::number(const std::string& key, std::int64_t otherwise) const {
  const auto found = fields.find(key);
  if (found == fields.end()) return otherwise;
  std::int64_t value = 0;
  const auto& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

std::string render(const Message& message) {
  std::string out = message.verb;
  for (const auto& [key, value] : message.fields) {
    out += '\n';
    out += key;
    out += ' ';
    append_escaped(out, value);
  }
  return out;
}

std::optional<Message> parse_message(std::string_view packet) {
  Message message;
  for (bool first = true; first || !packet.empty(); first = false) {
    const auto end = packet.find('\n');
    const auto line = packet.substr(0, end);
    packet.remove_prefix(end == std::string_view::npos ? packet.size() : end + 1);
    if (first) {
      if (line.empty() || line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string_view::npos) {
        return std::nullopt;
      }
      message.verb = line;
      continue;
    }
    const auto space = line.find(' ');
    if (space == std::string_view::npos || space == 0) return std::nullopt;
    message.fields[std::string(line.substr(0, space))] = unescaped(line.substr(space + 1));
  }
  return message;
}

bool send_message(int fd, const Message& message, int attached) {
  std::string packet = render(message);
  iovec part{packet.data(), packet.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (attached >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &attached, sizeof attached);
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(packet.size());
}

Received receive_message(int fd, Message* message, Fd* attached) {
  std::vector<char> packet(kLargest);
  iovec part{packet.data(), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    // If a peer disconnects with an unread message, ECONNRESET is returned once, before the data that it had sent.
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got < 0) return errno == EAGAIN ? Received::kNothing : Received::kEnd;
  if (got == 0) return Received::kEnd;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    Fd received;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(c), sizeof number);
    received.reset(number);
    if (attached != nullptr) *attached = std::move(received);
  }
  auto parsed = parse_message({packet.data(), static_cast<std::size_t>(got)});
  if (!parsed) return Received::kGarbage;
  *message = *std::move(parsed);
  return Received::kMessage;
}

Fd listen_at(const std::string& path, unsigned mode) {
  sockaddr_un address;
  if (!address_of(path, &address)) return {};
  ::unlink(path.c_str());
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), mode) != 0 || ::listen(fd.get(), 128) != 0) {
    return {};
  }
  return fd;
}

Fd connect_to(const std::string& path) {
  sockaddr_un address;
  if (!address_of(path, &address)) return {};
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

std::pair<Fd, Fd> socket_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {Fd(ends[0]), Fd(ends[1])};
}

Peer peer_of(int fd) {
  ucred cred{};
  socklen_t size = sizeof cred;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0) return {};
  return {cred.pid, cred.uid};
}

}  // namespace tranche::sim
