#pragma once
// The relay of an endpoint: which messages between a CUDA process and the MPS control daemon may pass, one connection
// at a time. The endpoint's socket is ours (docs/internals/decisions/0009-relay.md); the messages are the daemon's,
// undocumented and measured (docs/internals/evidence/mps-handshake.md, "Messages on control"), so anything else than
// what was seen ends the connection. Nothing of a tenant's making reaches the daemon but its identity, as the kernel
// tells it. The relay sends message 5 at once, because the daemon serves no other client while it waits for it; the
// relay then waits for the client's own. Not for the daemon's replies to commands (replies.h). Pure; fuzzed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "mps/relay/relay_questions.h"

namespace tranche::mps {

inline constexpr std::string_view kRelayHello{"OUTBHELL\0", 9};        // daemon → client, at once
inline constexpr std::string_view kRelayCredentials{"OUTBCRED\0", 9};  // client → daemon, with SCM_CREDENTIALS
inline constexpr std::string_view kRelayNewClient{"\2\0\0\0", 4};      // client → daemon: not a command, not a server
inline constexpr std::string_view kRelayDescriptor{"OUTBCUFD\0", 9};   // daemon → client, with a socket to the server
inline constexpr std::string_view kRelayTaken{"\0\0\0\0", 4};          // client → daemon: the server has taken it

inline constexpr std::size_t kRelayLongest = 4096;       // bytes of one message, either way
inline constexpr std::size_t kRelayMostDescriptors = 4;  // with one message of the daemon's; none with a client's

// Who sent a message, in our process and user namespaces; pid 0: a process that we cannot see.
struct RelaySender {
  int pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  friend bool operator==(const RelaySender&, const RelaySender&) = default;
};

// One message as it arrived.
struct RelayMessage {
  std::string_view bytes;
  std::size_t descriptors = 0;
  bool truncated = false;  // longer than kRelayLongest, or more came along than we took
  std::optional<RelaySender> sender;
};

enum class RelayStage {
  kCredentials,  // greeted; the client has to introduce itself
  kType,         // and to say what it wants
  kTurn,         // it waits until the daemon may be asked
  kGreeting,     // we are connected to the daemon, which greets first
  kServer,       // the daemon knows the client; the server may have to start
  kTaken,        // the client has its socket, and has to say that the server has it
  kQuestions,    // it asks what its own share is: how long its next question is
  kQuestion,     // and the question
  kIn,           // let in: the rest runs elsewhere
  kEnded,
};
std::string_view to_string(RelayStage stage);

// Why a connection ended.
enum class RelayEnd {
  kLooked,       // hung up without a word: the driver library's first look
  kLeft,         // hung up before it was let in
  kDone,         // was let in; either side hung up
  kAsked,        // asked what its own share is
  kCommand,      // wanted to command the daemon
  kServer,       // wanted to report as a server
  kOtherType,    // wanted something that nobody knows
  kGarbled,      // said something that was never seen
  kNotItself,    // introduced itself as another process
  kMute,         // did not introduce itself in time
  kNotServed,    // the pool was not serving for too long
  kOtherDaemon,  // what the daemon said at first was never seen
  kDaemonMute,   // the daemon did not greet in time
  kDaemonGone,   // the daemon hung up
  kServerLate,   // no server in time
  kStalled,      // broke off with its server, or let it wait: the server may be stuck for everybody (measured)
  kRefused,      // not admitted: the grant is closed, or too many clients
  kNoLimits,     // its grant's own limits could not be set
  kAbandoned,    // the process that connected has ended, and another one holds its connection
};
std::string_view to_string(RelayEnd end);  // a phrase for people
bool is_attempt(RelayEnd end);             // somebody tried what no CUDA process does

struct RelayTimes {
  Duration words = std::chrono::seconds(5);  // for the client's credentials and type together
  Duration turn = std::chrono::seconds(30);  // for a pool that does not serve yet or again
  Duration greeting = std::chrono::seconds(10);
  Duration server = std::chrono::seconds(30);  // a server that starts; zero = without end
  Duration taken = std::chrono::seconds(2);    // for the client's word that the server has it
  // After that word, for the server's log to say the same: until then other limits could become the client's.
  Duration settled = std::chrono::milliseconds(250);
};

struct Passage {
  RelayStage stage = RelayStage::kCredentials;
  RelayEnd end = RelayEnd::kLooked;  // once ended
  int connected_by = 0;              // the process that connected (SO_PEERCRED); 0 = not known
  RelaySender client;                // once it is known
  RelayQuestion question;            // with kAnswer
  std::size_t announced = 0;         // bytes of the question to come
  unsigned questions = 0;            // so far
  std::optional<MonoTime> until;     // when kTimeUp is due
};

enum class RelayEvent {
  kFromClient,
  kFromDaemon,
  kClientGone,
  kDaemonGone,
  kConnected,
  kNoDaemon,
  kRefused,
  kNoLimits,
  kConnectorGone,
  kTimeUp
};

// What the relay does next. With kToClient and kHandOver the message goes on as it came, descriptors and all.
enum class RelayAction {
  kNothing,
  kAskTurn,    // check admission, then wait until the daemon may be connected to
  kAnswer,     // tell it what it asked about its own share (Passage::question)
  kFarewell,   // tell it kRelayEnd, then close
  kIntroduce,  // send the daemon kRelayCredentials as the client, and kRelayNewClient
  kToClient,
  kHandOver,    // to the client, and kRelayTaken to the daemon
  kLetIn,       // the client has said its word; nothing is passed on
  kDropDaemon,  // the daemon has done its part; the client's word is still waited for
  kEnd,         // close both sides
};

Passage begin_passage(int connected_by, MonoTime now, const RelayTimes& times);
// `message` counts with kFromClient and kFromDaemon only. Nothing follows once ended.
RelayAction step(Passage& passage, RelayEvent event, const RelayMessage& message, MonoTime now,
                 const RelayTimes& times);

// Whether it still is a handshake, which there may only be so many of.
inline bool is_handshake(const Passage& p) {
  return p.stage != RelayStage::kIn && p.stage != RelayStage::kEnded;
}

}  // namespace tranche::mps
