#include "mps/relay/relay_packet.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "os/process/process.h"
#include "os/socket/unix_socket.h"

namespace tranche::mps {
namespace {

#ifdef SO_PEERPIDFD
constexpr int kPeerPidfd = SO_PEERPIDFD;
#else
constexpr int kPeerPidfd = 77;  // since Linux 6.5; newer than the headers
#endif

// Space for all accepted descriptors and for credentials.
struct Ancillary {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kRelayMostDescriptors) + CMSG_SPACE(sizeof(ucred))] = {};
};

void take_ancillary(msghdr& header, RelayMessage& packet) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        packet.descriptors.emplace_back(fd);
      }
    } else if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
      packet.sender = RelaySender{sender.pid, sender.uid, sender.gid};
    }
  }
}

void append(msghdr& header, std::size_t& used, int type, const void* data, std::size_t size) {
  auto* at = reinterpret_cast<cmsghdr*>(static_cast<char*>(header.msg_control) + used);
  at->cmsg_level = SOL_SOCKET;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(at), data, size);
  used += CMSG_SPACE(size);
}

// recvmsg(2) with space for a message and for ancillary data, which the header describes afterwards.
ssize_t receive(int fd, std::span<char> bytes, std::span<char> ancillary, int flags, msghdr& header) {
  iovec part{bytes.data(), bytes.size()};
  header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = ancillary.data();
  header.msg_controllen = ancillary.size();
  ssize_t got = 0;
  // A peer that hung up with our message unread yields one ECONNRESET, before the data that it had sent.
  do {
    got = ::recvmsg(fd, &header, flags | MSG_DONTWAIT);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  header.msg_iov = nullptr;
  return got;
}

}  // namespace

Arrival receive_packet(int fd, RelayMessage& packet) {
  char bytes[kRelayLongest];
  Ancillary room;
  msghdr header;
  const auto got = receive(fd, bytes, room.bytes, MSG_CMSG_CLOEXEC, header);
  if (got < 0) return errno == EAGAIN ? Arrival::kNothing : Arrival::kEnd;
  packet = {};
  take_ancillary(header, packet);
  if (got == 0 && packet.descriptors.empty()) return Arrival::kEnd;
  packet.bytes.assign(bytes, static_cast<std::size_t>(got));
  packet.truncated = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  return Arrival::kPacket;
}

Arrival receive_from_tenant(int fd, RelayMessage& packet) {
  char bytes[kRelayLongest];
  // The credentials fill it, so the kernel installs no descriptor.
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(ucred))];
  packet = {};
  msghdr header;
  const auto peeked = receive(fd, bytes, room, MSG_PEEK, header);
  if (peeked < 0) return errno == EAGAIN ? Arrival::kNothing : Arrival::kEnd;
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    packet.truncated = true;
    return Arrival::kPacket;
  }
  const auto got = receive(fd, bytes, room, 0, header);
  take_ancillary(header, packet);
  if (got < 0 || !packet.sender) return Arrival::kEnd;
  packet.bytes.assign(bytes, static_cast<std::size_t>(got));
  packet.truncated = (header.msg_flags & MSG_TRUNC) != 0;
  return Arrival::kPacket;
}

Status send_packet(int fd, std::string_view bytes, std::span<const os::Fd> descriptors, const RelaySender* as) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  Ancillary room;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room.bytes;
  std::size_t used = 0;
  if (!descriptors.empty()) {
    std::vector<int> numbers;
    for (const auto& one : descriptors) numbers.push_back(one.get());
    numbers.resize(std::min(numbers.size(), kRelayMostDescriptors));
    append(header, used, SCM_RIGHTS, numbers.data(), numbers.size() * sizeof(int));
  }
  if (as != nullptr) {
    const ucred sender{as->pid, as->uid, as->gid};
    append(header, used, SCM_CREDENTIALS, &sender, sizeof sender);
  }
  header.msg_controllen = used;
  if (used == 0) header.msg_control = nullptr;
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return {};
  if (sent < 0 && errno == EPERM)
    return fail(Kind::kDenied, "the kernel does not let us speak for a client", "", EPERM);
  if (sent < 0 && errno == ESRCH) return fail(Kind::kNotFound, "there is no such process", "", ESRCH);
  return fail(Kind::kUnavailable, "the other side does not take a message", "", sent < 0 ? errno : 0);
}

Result<os::Fd> listen_in(const os::Dir& directory, const std::string& name) {
  // Through the held directory, so that the length of its path does not matter.
  auto fd = os::listen_in_place_of(fmt::format("/proc/self/fd/{}/{}", directory.fd(), name), SOCK_SEQPACKET, 0666);
  const std::string path = directory.path() + "/" + name;
  const int on = 1;
  if (!fd)
    fd.error().where = path;
  else if (::setsockopt(fd->get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return fail_errno("cannot ask for credentials", path);
  return fd;
}

bool Peer::lives() const {
  return pidfd ? !os::has_ended(pidfd) : sender.pid <= 0;
}

Peer peer_of(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  Peer who{{peer.pid, peer.uid, peer.gid}, {}};
  int pidfd = -1;
  size = sizeof pidfd;
  // Any other failure means that the process has exited and was reaped (newer kernels give a pidfd of it, too), or that
  // no descriptor is free: without a pidfd the owner of the pid is unknown.
  if (::getsockopt(fd, SOL_SOCKET, kPeerPidfd, &pidfd, &size) == 0) {
    who.pidfd = os::Fd(pidfd);
  } else if (errno == ENOPROTOOPT && peer.pid > 0) {
    who.pidfd = os::open_pidfd(peer.pid).value_or(os::Fd());
  }
  return who;
}

}  // namespace tranche::mps
