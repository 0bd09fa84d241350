#include "standins/mps/handshake.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tranche::sim {
namespace {

constexpr std::size_t kLargestGreeting = 128 * 1024;

// Room for one descriptor and one set of credentials.
struct Ancillary {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
};

void append(msghdr& header, std::size_t* used, int type, const void* data, std::size_t size) {
  auto* at = reinterpret_cast<cmsghdr*>(static_cast<char*>(header.msg_control) + *used);
  at->cmsg_level = SOL_SOCKET;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(at), data, size);
  *used += CMSG_SPACE(size);
}

}  // namespace

Identity own_identity() {
  return {::getpid(), ::geteuid(), ::getegid()};
}

bool send_packet(int fd, std::string_view bytes, int descriptor, const Identity* as) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  Ancillary room;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room.bytes;
  std::size_t used = 0;
  if (descriptor >= 0) append(header, &used, SCM_RIGHTS, &descriptor, sizeof descriptor);
  if (as != nullptr) {
    const ucred sender{as->pid, as->uid, as->gid};
    append(header, &used, SCM_CREDENTIALS, &sender, sizeof sender);
  }
  header.msg_controllen = used;
  if (used == 0) header.msg_control = nullptr;
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

Arrived receive_packet(int fd, Packet* packet) {
  packet->bytes.resize(kLargestGreeting);
  iovec part{packet->bytes.data(), packet->bytes.size()};
  Ancillary room;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room.bytes;
  header.msg_controllen = sizeof room.bytes;
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  packet->bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got <= 0) return got < 0 && errno == EAGAIN ? Arrived::kNothing : Arrived::kEnd;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(c), sizeof number);
      packet->descriptor.reset(number);
    } else if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
      packet->sender = Identity{sender.pid, sender.uid, sender.gid};
    }
  }
  return Arrived::kPacket;
}

bool accept_identities(int fd) {
  const int on = 1;
  return ::setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0;
}

bool send_type(int fd, ConnectionType type) {
  const auto number = static_cast<std::uint32_t>(type);
  char bytes[4];
  for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<char>(number >> (8 * i));
  return send_packet(fd, {bytes, sizeof bytes});
}

std::optional<std::uint32_t> type_of(std::string_view bytes) {
  if (bytes.size() != 4) return std::nullopt;
  std::uint32_t number = 0;
  for (unsigned i = 0; i < 4; ++i)
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return number;
}

std::string little_endian(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::optional<std::uint64_t> length_of(std::string_view bytes) {
  if (bytes.size() != 8) return std::nullopt;
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

bool send_command(int fd, const std::string& line) {
  const std::string text = line + '\n' + '\0';
  return send_packet(fd, little_endian(text.size(), 8)) && send_packet(fd, text);
}

bool send_last(int fd) {
  return send_packet(fd, little_endian(0, 8));
}

bool send_text(int fd, const std::string& text) {
  if (text.empty()) return true;
  return send_packet(fd, little_endian(0, 4) + (text.ends_with('\n') ? text.substr(0, text.size() - 1) : text));
}

bool send_status(int fd, std::uint32_t status) {
  return send_packet(fd, little_endian(1, 4) + little_endian(status, 4));
}

bool greet_client(int fd, int channel, int pipe) {
  for (int i = 0; i < kServerDescriptors; ++i) {
    if (!send_packet(fd, kDescriptor, i + 1 == kServerDescriptors || pipe < 0 ? channel : pipe)) return false;
  }
  return send_packet(fd, kServerGreeted);
}

bool speak_to_server(int fd, std::uint32_t context) {
  const Identity self = own_identity();
  return send_packet(fd, kCredentials, -1, &self) && send_packet(fd, little_endian(context, 4)) &&
         send_packet(fd, context == 0 ? kFirstFlags : kFlags);
}

Joined join_server(int fd, std::uint32_t context) {
  Joined joined;
  Packet packet;
  for (int i = 0; i <= kServerDescriptors; ++i) {
    if (receive_packet(fd, &packet) != Arrived::kPacket) return {};
    if (packet.bytes != (i < kServerDescriptors ? kDescriptor : kServerGreeted)) return {{}, packet.bytes};
    if (i + 1 == kServerDescriptors) joined.channel = std::move(packet.descriptor);
  }
  if (!speak_to_server(fd, context)) return {};
  if (receive_packet(fd, &packet) != Arrived::kPacket || packet.bytes != kServerAnswer) return {{}, packet.bytes};
  return joined;
}

bool await_hello(int fd, int timeout_ms) {
  pollfd one{fd, POLLIN, 0};
  Packet packet;
  return ::poll(&one, 1, timeout_ms) > 0 && receive_packet(fd, &packet) == Arrived::kPacket && packet.bytes == kHello;
}

bool introduce(int fd, ConnectionType type, const Identity& as) {
  return send_packet(fd, kCredentials, -1, &as) && send_type(fd, type);
}

}  // namespace tranche::sim
