#pragma once
// Private to mps: SOCK_SEQPACKET messages with ancillary data (descriptors, credentials), and the sockets of endpoints.
// Non-blocking; every descriptor is close-on-exec. No threads.
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "mps/relay/handshake.h"
#include "os/files/files.h"
#include "os/loop/fd.h"

namespace tranche::mps {

enum class Arrival { kPacket, kNothing, kEnd };
Arrival receive_packet(int fd, RelayMessage& packet);
// From a socket with SO_PASSCRED whose peer is a tenant. A message with descriptors is truncated, without bytes, and
// stays in the socket, because discarding it releases them, which may take as long as the tenant wants
// (mps/relay/tenant_sockets.h): end the connection.
Arrival receive_from_tenant(int fd, RelayMessage& packet);

// With `as`, sends with that process's credentials: kDenied if the kernel does not permit it (needs CAP_SYS_ADMIN, and
// CAP_SETUID for the user), kNotFound if the process has exited. kUnavailable: the peer hung up or does not read.
Status send_packet(int fd, std::string_view bytes, std::span<const os::Fd> descriptors = {},
                   const RelaySender* as = nullptr);

// Creates a listening socket `name` in a directory, accessible to every user; atomically replaces any file there. Its
// path may be longer than a socket address.
Result<os::Fd> listen_in(const os::Dir& directory, const std::string& name);

// The process that connected. The socket keeps the pid of a process that has exited, even if another process reuses the
// pid; therefore the process itself is held.
struct Peer {
  RelaySender sender;  // pid 0: not visible to us
  os::Fd pidfd;        // absent: it has exited, or is not visible
  // Whether the pid still belongs to the process. Also true of a process that is not visible: its pid is not known.
  bool lives() const;
};
// Call when the connection is accepted: a kernel before Linux 6.5 reports only the pid of the process, and the process
// that has the pid at that moment is assumed.
Peer peer_of(int fd);

}  // namespace tranche::mps
