#pragma once
// Private to mps: SOCK_SEQPACKET messages with what comes along (descriptors, credentials), and the sockets of
// endpoints. Non-blocking; every descriptor close-on-exec. No threads.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mps/relay/handshake.h"
#include "os/files/files.h"
#include "os/loop/fd.h"

namespace tranche::host {

struct RelayPacket {
  std::string bytes;
  std::vector<Fd> descriptors;
  std::optional<mps::RelaySender> sender;
  bool truncated = false;
  mps::RelayMessage message() const { return {bytes, descriptors.size(), truncated, sender}; }
};

enum class Arrival { kPacket, kNothing, kEnd };
Arrival receive_packet(int fd, RelayPacket& packet);

// With `as`, in the name of that process: kDenied when the kernel does not let us (it takes CAP_SYS_ADMIN, and
// CAP_SETUID for its user), kNotFound when it has ended. kUnavailable: the other side is gone, or does not read.
Status send_packet(int fd, std::string_view bytes, std::span<const Fd> descriptors = {},
                   const mps::RelaySender* as = nullptr);

// A listening socket `name` in a directory, in place of whatever was there, in one step; open to every user. Its path
// may be longer than socket addresses are.
enum class Protocol { kPackets, kStream };
Result<Fd> listen_in(const Dir& directory, const std::string& name, Protocol protocol);
Result<Fd> connect_to_daemon(const std::string& path);

// Who connected. The socket keeps the number of a process that has ended, also when another process has that number by
// now; so the process itself is held.
struct Peer {
  mps::RelaySender sender;  // pid 0: not to be seen from here
  Fd pidfd;                 // absent: it has ended, or cannot be seen
  // Its number is its own. Also true of a process that cannot be seen: no number is known of it.
  bool lives() const;
};
// To be called when the connection is accepted: a kernel before Linux 6.5 does not tell the process, only its number,
// which is taken for the process that has it now.
Peer peer_of(int fd);
bool has_ended(const Fd& pidfd);

}  // namespace tranche::host
