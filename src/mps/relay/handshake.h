#pragma once
// The handshake at an endpoint: which messages between a CUDA process and the MPS control daemon may pass, for one
// connection. We own the endpoint's socket (docs/internals/decisions/0009-relay.md). The messages are the daemon's,
// undocumented and measured (docs/internals/evidence/mps-handshake.md, "Messages on control"), so any message that was
// not observed ends the connection. Nothing that a tenant writes reaches the daemon; only its identity does, as the
// kernel reports it. The relay sends message 5 at once, because the daemon serves no other client while it waits for
// it.
//
// The relay also carries the exchange between the client and its server, which the client gets a socket of ours for
// (same document, "Messages between server and client"). While a server waits for its client, it accepts no other one,
// so the relay sends what is missing in the client's place (RelayExchange::missing) when the client breaks off or is
// late. A client that is late is admitted all the same, and its own messages are then dropped. A client is admitted
// when its server has answered; its own message 5 proves nothing. Only where a server's first messages are not the
// measured ones does message 5 admit it. Not for the daemon's replies to commands (questions.h). Pure; fuzzed.
//
// The commands of nvidia-cuda-mps-control that a container may send at its endpoint query its own limits, in the
// daemon's format (RelayQuestion). The daemon receives nothing of it. Any other command counts as an attempt.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/time.h"
#include "mps/limits/limits.h"
#include "os/loop/fd.h"

namespace tranche::mps {

inline constexpr std::string_view kRelayHello{"OUTBHELL\0", 9};        // daemon → client, at once
inline constexpr std::string_view kRelayCredentials{"OUTBCRED\0", 9};  // client → daemon, with SCM_CREDENTIALS
inline constexpr std::string_view kRelayNewClient{"\2\0\0\0", 4};     // client → daemon: neither a command nor a server
inline constexpr std::string_view kRelayDescriptor{"OUTBCUFD\0", 9};  // daemon → client, with a socket to the server
inline constexpr std::string_view kRelayTaken{"\0\0\0\0", 4};         // client → daemon: the server has accepted it

// Between server and client: the server sends four descriptors and a byte, the client its credentials and two numbers
// of 4 bytes, the server its answer.
inline constexpr std::array<std::string_view, 3> kExchangeOfClient{kRelayCredentials, std::string_view{"\0\0\0\0", 4},
                                                                   std::string_view{"\xff\0\0\0", 4}};
inline constexpr std::size_t kExchangeSaysContext = 1;  // of the client's messages
inline constexpr std::size_t kExchangeSaysPriority = 2;
inline constexpr std::string_view kNormalPriority{"\0\0\0\0", 4};
inline constexpr std::string_view kLowPriority{"\1\0\0\0", 4};
inline constexpr std::uint32_t kHighestContext = 0x7fffffff;  // a negative number is never sent to a server
inline constexpr std::size_t kExchangeDescriptors = 4;        // messages kRelayDescriptor
inline constexpr std::string_view kExchangeGreeted{"\0", 1};
inline constexpr std::string_view kExchangeAnswer{"\0\0\0\0", 4};

inline constexpr std::size_t kRelayLongest = 4096;       // bytes of one message, in either direction
inline constexpr std::size_t kRelayMostDescriptors = 4;  // in one message of the daemon; a client sends none

inline constexpr std::size_t kLongestQuestion = 256;                 // bytes
inline constexpr unsigned kMostQuestions = 16;                       // for each connection
inline constexpr std::string_view kRelayEnd{"\1\0\0\0\0\0\0\0", 8};  // after the caller's zero: done, status 0

struct RelayQuestion {
  std::string device = {};  // whose memory limit: an ordinal among the container's GPUs, or a UUID; "": the threads
  friend bool operator==(const RelayQuestion&, const RelayQuestion&) = default;
};

// 8 bytes, little-endian: the length of the next message; 0 = no more questions. Absent: another message.
std::optional<std::uint64_t> length_announced(std::string_view bytes);
// "get_default_active_thread_percentage\n\0", "get_default_device_pinned_mem_limit 0\n\0". Absent: anything else.
std::optional<RelayQuestion> parse_question(std::string_view bytes);
// The reply; "" if the daemon would print nothing: no such device, or no limit. `limits` has the devices that the
// container holds, in the order of its ordinals.
std::string answer_to(const RelayQuestion& question, const DaemonLimits& limits);

// The sender of a message, in our process and user namespaces; pid 0: a process that is not visible to us.
struct RelaySender {
  int pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  friend bool operator==(const RelaySender&, const RelaySender&) = default;
};

// One message as received.
struct RelayMessage {
  std::string bytes = {};
  std::vector<os::Fd> descriptors = {};
  bool truncated = false;  // longer than kRelayLongest, or with more descriptors than accepted
  std::optional<RelaySender> sender = {};
};

enum class RelayStage {
  kCredentials,  // greeted; waits for the client's credentials
  kType,         // waits for the type of the connection
  kTurn,         // waits until the daemon may be connected to
  kGreeting,     // connected to the daemon; waits for its greeting
  kServer,       // the daemon knows the client; the server may have to start
  kTaken,        // the client has its socket; waits until its server has accepted it
  kQuestions,    // the client queries its own limits: waits for its next question, or for the length of it
  kIn,           // admitted: the rest does not pass through the relay
  kEnded,
};

// Why a connection ended.
enum class RelayEnd {
  kLeft,         // hung up, or queried its own limits; after an admission also the daemon
  kCommand,      // tried to send a command to the daemon
  kServer,       // tried to report as a server
  kOtherType,    // tried a connection type that is unknown
  kGarbled,      // sent a message that was never observed
  kNotItself,    // sent the credentials of another process
  kMute,         // did not send its credentials in time
  kNotServed,    // the pool did not serve for too long
  kOtherDaemon,  // the daemon's greeting was never observed
  kDaemonMute,   // the daemon did not greet in time
  kDaemonGone,   // the daemon hung up
  kServerLate,   // no server in time, or one that hung up without a word
  kBrokeOff,   // or was late, in an exchange that the relay cannot complete: its server may be stuck for all (measured)
  kRefused,    // not admitted: the grant is closed, or has too many clients
  kNoLimits,   // its grant's own limits could not be set
  kAbandoned,  // the process that connected has exited, and another process holds its connection
};
ENUM_NAMES(RelayEnd::kAbandoned, "hung up", "wanted to command the MPS daemon",
           "wanted to report to the MPS daemon as a server", "wanted something that no CUDA process wants",
           "said something that no CUDA process says", "introduced itself as another process",
           "did not introduce itself in time", "the MPS daemon did not serve in time",
           "the MPS daemon says something that this program does not know", "the MPS daemon did not answer in time",
           "the MPS daemon hung up", "the MPS daemon had no server for it in time", "broke off with its MPS server",
           "was not admitted", "could not be given its own limits", "was left open by a process that has ended")
bool is_attempt(RelayEnd end);  // a client did what no CUDA process does

struct RelayTimes {
  Duration words = std::chrono::seconds(5);      // for the client's credentials and type together; for its confirmation
  Duration turn = std::chrono::seconds(30);      // for a pool that does not serve yet or again
  Duration greeting = std::chrono::seconds(10);  // for the daemon's greeting, and for the server's
  Duration server = std::chrono::seconds(30);    // for a server to start; zero = no limit
  // For the client's part of the exchange, from the server's first message on, while others wait. Then the relay sends
  // the rest.
  Duration exchange = std::chrono::milliseconds(100);
  Duration alone = std::chrono::seconds(2);  // while no others wait, and in an exchange that the relay cannot complete
};

// The exchange between the client and its server.
struct RelayExchange {
  bool foreign = false;         // the server's first messages, which no client can change, are not the measured ones
  bool over = false;            // the server has answered, or hung up
  std::size_t from_client = 0;  // messages of the client
  std::size_t from_relay = 0;   // messages that the relay has sent in its place: all that were missing
  std::uint32_t context = 0;    // the number of the client's context, once sent; 0 = the process's own connection
  std::size_t heard = 0;        // messages of the server
  MonoTime began{};             // with the first of them
  bool has_all() const { return from_client + from_relay >= kExchangeOfClient.size(); }
  // What the server still needs to accept its next client.
  std::span<const std::string_view> missing() const {
    return !over && !foreign && !has_all() ? std::span(kExchangeOfClient).subspan(from_client + from_relay)
                                           : std::span<const std::string_view>{};
  }
};

struct Passage {
  RelayStage stage = RelayStage::kCredentials;
  RelayEnd end = RelayEnd::kLeft;  // once ended
  std::string why = {};            // with kRefused
  RelaySender connected_by;        // the process that connected (SO_PEERCRED); pid 0 = not known
  RelaySender client;              // set once it is known
  RelayQuestion question;          // with kAnswer
  std::size_t announced = 0;       // length of the next question in bytes; 0: the length comes next
  unsigned questions = 0;          // number of questions so far
  std::optional<MonoTime> until;   // when kTimeUp is due
  RelayExchange exchange;
  bool confirmed = false;    // the client has sent kRelayTaken
  bool daemon_gone = false;  // its part is done
  bool client_gone = false;  // after its admission, or before its server sent anything
  bool garbled = false;      // it sent a message that was never observed, and the daemon knew it already
};

enum class RelayEvent {
  kFromClient,
  kFromDaemon,
  kClientGone,
  kDaemonGone,
  kConnected,
  // In the exchange. The messages are forwarded before they are counted.
  kClientSaid,
  kServerSaid,
  kClientBrokeOff,
  kServerGone,
  kTimeUp
};

// The relay's next action. With kToClient it forwards the message unchanged, with its descriptors; with kHandOver with
// a socket of its own in the server's place.
enum class RelayAction {
  kNothing,
  kAskTurn,    // check admission, then wait until the daemon may be connected to
  kAnswer,     // answer the question about the client's own limits (Passage::question)
  kFarewell,   // send it kRelayEnd, then close
  kIntroduce,  // send the daemon kRelayCredentials as the client, and kRelayNewClient
  kToClient,
  kComplete,    // send the server RelayExchange::missing() in the client's place, and go on
  kHandOver,    // forward to the client, and send kRelayTaken to the daemon
  kLetIn,       // its server has accepted the client; nothing is forwarded
  kDropDaemon,  // the daemon is finished; the rest is still awaited
  kEnd,         // send the server RelayExchange::missing(), and close all sides
};

// Call after kComplete if no others wait. true: there is still time for the client to go on itself.
bool may_wait(Passage& passage, MonoTime now, const RelayTimes& times);
Passage begin_passage(const RelaySender& connected_by, MonoTime now, const RelayTimes& times);
// `message` counts with kFromClient and kFromDaemon only. After the end of the passage it returns kNothing.
RelayAction step(Passage& passage, RelayEvent event, const RelayMessage& message, MonoTime now,
                 const RelayTimes& times);
// The relay ends it: kRefused, kNoLimits or kAbandoned.
RelayAction ended(Passage& passage, RelayEnd end, const std::string& why = {});

// What the server gets for this message of the client in the exchange; nullopt if the client breaks off with it. The
// server reads the context's number as a signed one. Of the priority (0xff: not set, 0: normal, 1: low) it accepts any
// number; one that was never observed becomes "not set", so a client can lower its priority and not raise it.
std::optional<std::string_view> for_server(const Passage& passage, std::string_view bytes);

std::string context_text(std::uint32_t context);  // the message with this number

// Whether the relay has spoken for the client, its server has accepted it, and its own messages may still come.
inline bool has_yet_to_speak(const Passage& p) {
  return p.stage == RelayStage::kIn && p.exchange.from_relay > 0 && p.exchange.from_client < kExchangeOfClient.size();
}
// Whether its server has not sent anything yet. If the passage ended now, the server would meet a closed socket.
inline bool waits_for_server(const Passage& p) {
  return p.stage == RelayStage::kServer || (p.stage == RelayStage::kTaken && !p.exchange.over && p.exchange.heard == 0);
}

}  // namespace tranche::mps
