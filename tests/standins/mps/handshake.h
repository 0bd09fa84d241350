#pragma once
// The real daemon's messages on `control` and `control_privileged`, as observed with driver 580.159.04
// (docs/internals/evidence/mps-handshake.md, "Messages on control"). Implements both sides, so that tests can be
// either. Blocking unless a deadline is given. One thread per descriptor.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "standins/mps/wire.h"

namespace tranche::sim {

inline constexpr std::string_view kHello{"OUTBHELL\0", 9};        // 1: daemon, immediately
inline constexpr std::string_view kCredentials{"OUTBCRED\0", 9};  // 2: the connecting process, with SCM_CREDENTIALS
inline constexpr std::string_view kDescriptor{"OUTBCUFD\0", 9};   // 4: daemon, with the socket to the server
inline constexpr std::string_view kAcknowledged{"\0\0\0\0", 4};   // 5: client, once the server has accepted it
enum class ConnectionType : std::uint32_t { kServer = 1, kClient = 2, kCommands = 4 };  // 3: 4 bytes, little-endian

struct Identity {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
Identity own_identity();

// One packet with its ancillary data. A descriptor that is not taken is closed.
struct Packet {
  std::string bytes;
  Fd descriptor;
  std::optional<Identity> sender;  // from the kernel; only with accept_identities()
};
enum class Arrived { kPacket, kEnd, kNothing };
Arrived receive_packet(int fd, Packet* packet);
bool send_packet(int fd, std::string_view bytes, int descriptor = -1, const Identity* as = nullptr);

bool accept_identities(int fd);  // SO_PASSCRED
bool send_type(int fd, ConnectionType type);
std::optional<std::uint32_t> type_of(std::string_view bytes);

// After type 4, in both directions: commands with a length prefix, and their answers.
std::string little_endian(std::uint64_t value, unsigned bytes);
std::optional<std::uint64_t> length_of(std::string_view bytes);  // 8 bytes; 0 = no more commands
bool send_command(int fd, const std::string& line);
bool send_last(int fd);                           // no more commands
bool send_text(int fd, const std::string& text);  // without its last line end; empty text is not sent
bool send_status(int fd, std::uint32_t status);   // the session has ended

// On the descriptor of message 4 (same document, "Messages between server and client"). The server sends four
// descriptors and a byte, without being asked; the client its credentials and two numbers; the server its answer. With
// the real server all four are ends of pipes. Here the stand-ins' own messages (wire.h) pass through the last, a
// socket; the others are ends of a pipe that the server has open for as long as it has the client: a relay that sees
// only the first knows a pipe, as with the real server.
inline constexpr int kServerDescriptors = 4;
inline constexpr std::string_view kServerGreeted{"\0", 1};
inline constexpr std::string_view kFirstContext{"\0\0\0\0", 4}, kFirstFlags{"\xff\0\0\0", 4}, kFlags{"\0\0\0\0", 4};
inline constexpr std::string_view kServerAnswer{"\0\0\0\0", 4};
bool greet_client(int fd, int channel, int pipe = -1);  // the server's side; -1: the channel four times
// What the client sends. Each of its contexts has a connection and a number of its own; 0 is the process itself.
bool speak_to_server(int fd, std::uint32_t context = 0);
// The client's side from end to end. Without a channel the server hung up, or refused in a message of wire.h.
struct Joined {
  Fd channel;
  std::string refusal;
};
Joined join_server(int fd, std::uint32_t context = 0);

// The connecting side. false: no greeting arrived in time, or the peer has disconnected.
bool await_hello(int fd, int timeout_ms);  // -1 = no limit
bool introduce(int fd, ConnectionType type, const Identity& as = own_identity());

}  // namespace tranche::sim
