#pragma once
// One MPS control daemon as a pure state machine: what happened and what time it is → the new state and what to do.
// mps carries the actions out and turns the world into events. Every arrow is a row in supervisor_test.cpp.
//
//   Absent ──start──► Starting ──answers──► Configuring ──limits read back──► Serving
//     ▲                │  ▲  ▲                    │ refused, mute, differs     │   │
//     │      exit, mute│  │  └─ mute: ask again ──┼────────────────────────────┘   │ exit
//     │                ▼  │ back-off over         ▼                                │
//     │             BackingOff ◄──────────────────┴────────────────────────────────┘
//   any ──stop──► Stopping ──exit──► Absent     (quit, then SIGTERM, then SIGKILL)
//   too many failures in a row ──► GivenUp ──(desired limits)──► Starting
//
// Three rules on top. Between questions the daemon is pinged: who connects is greeted at once by one that lives, so a
// mute one leaves Serving within a second, and within 1.5 s while it has no client. A daemon that may have clients (it
// served, or it was adopted) is not killed for a question that failed: it leaves Serving at once, is asked again, and
// is ended only after `mute_patience` without an answer. And endpoints are opened only when limits are in force, of the
// daemon and of every server that runs already, so that no client gets in before them. What runs keeps what it began
// with: limits are for clients to come.
//
// Where a relay lets clients in one after the other, each with its grant's own limits (mps/limits/grant_limits.h), the
// daemon and its servers hold those of the last one whose turn it was: `turn`. Then that is what they are compared
// with.
//
// At most one question is open; its answer carries the id it was asked with, and any other id is ignored.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mps/limits/limits.h"

namespace tranche::mps {

enum class State { kAbsent, kStarting, kConfiguring, kServing, kBackingOff, kStopping, kGivenUp };
std::string_view to_string(State state);  // "absent", "starting", …, "backing-off", "given-up"

struct SupervisorSettings {
  Duration ask_again = std::chrono::milliseconds(50);  // between questions while the daemon does not answer yet
  Duration start_deadline = std::chrono::seconds(15);  // from spawning to the first answer
  Duration health_every = std::chrono::seconds(5);
  Duration rest_every = std::chrono::seconds(30);  // the same while no server has a client and the log tells of none
  Duration fault_every = std::chrono::seconds(1);  // the same while a server handles a fault
  Duration ping_every = std::chrono::milliseconds(500);
  Duration rest_ping_every = std::chrono::seconds(1);  // the same while no server has a client
  Duration ping_deadline = std::chrono::milliseconds(400);
  Duration question_deadline = std::chrono::seconds(1);  // for each question
  Duration turn_patience = std::chrono::minutes(1);      // for a question's turn to come, behind other sessions
  Duration mute_patience = std::chrono::seconds(30);     // how long a daemon with clients may stay mute
  Duration backoff_first = std::chrono::milliseconds(200);
  Duration backoff_longest = std::chrono::seconds(30);
  Duration stable_after = std::chrono::seconds(60);   // serving this long forgets earlier failures
  int start_limit = 10;                               // failures in a row; then GivenUp
  Duration quit_patience = std::chrono::seconds(10);  // for "quit" to end it, before SIGTERM
  Duration term_patience = std::chrono::seconds(5);   // for SIGTERM, before SIGKILL
  Duration kill_again = std::chrono::seconds(1);
};

struct ServerSeen {
  int pid = 0;
  std::string status;                         // "INITIALIZING", "ACTIVE", "FAULT"; "" when it would not say
  std::vector<int> clients;                   // host process ids
  std::optional<LimitsReadBack> limits = {};  // for clients to come; absent when it would not say
  MonoTime since{};                           // when it got this status; the supervisor's to fill in
  friend bool operator==(const ServerSeen&, const ServerSeen&) = default;
};

using QuestionId = std::uint64_t;  // 0 = none

struct Start {
  DaemonLimits desired;
  bool adopted = false;  // a daemon of ours from before runs already
};
struct Spawned {};
struct SpawnFailed {
  Error error;
};
struct DaemonExited {
  std::string note;  // "was killed by signal 9 (Killed)"
};
struct Answered {
  QuestionId id = 0;
  std::vector<ServerSeen> servers;
  std::string missing = {};  // of what applying the limits makes: it is not there (any more); "" = nothing
};
struct LimitsApplied {
  QuestionId id = 0;
};
struct LimitsRead {
  QuestionId id = 0;
  LimitsReadBack values;
};
struct ServerLimitsApplied {  // one server was told; what it says now comes with the next answer
  QuestionId id = 0;
};
struct ServerLogged {  // what a log line says of a server, sooner than an answer would
  int pid = 0;
  std::string status;  // "" = it ended
};
struct ClientLogged {};  // a client came
struct QuestionFailed {
  QuestionId id = 0;
  Error error;  // kTimeout, kNotFound, kInvalid: the daemon's fault; kConflict: somebody else talks to it; others: ours
};
struct Pinged {};  // greeted
struct PingFailed {
  Error error;
};
struct PingSkipped {};  // clients are being terminated: the daemon is busy with that and not mute
struct LookNow {};      // somebody waits for its clients to leave: ask now and not when it was due
struct Replace {        // the daemon answers and does not do its work
  std::string why;
};
struct TurnTold {  // the daemon and its servers hold these now, read back, for the next clients
  DaemonLimits limits;
  LimitsReadBack defaults;
};
struct TurnNotTold {  // it is not known what they hold; nobody was let in by it
  std::string why;    // "" = the pool itself broke off
};
struct QuestionWaits {  // for another session with the daemon: that is no silence of the daemon's
  QuestionId id = 0;
};
struct QuestionBegun {  // and now it is asked
  QuestionId id = 0;
};
struct Tick {};
struct StopAsked {};
struct DesiredChanged {
  DaemonLimits desired;
  std::optional<LimitsReadBack> in_force = {};  // they were told and read back already, beside the questions from here
};
using Event =
    std::variant<Start, Spawned, SpawnFailed, DaemonExited, Answered, LimitsApplied, LimitsRead, ServerLimitsApplied,
                 ServerLogged, ClientLogged, TurnTold, TurnNotTold, QuestionFailed, QuestionWaits, QuestionBegun,
                 Pinged, PingFailed, PingSkipped, LookNow, Replace, Tick, StopAsked, DesiredChanged>;

struct SpawnDaemon {
  friend bool operator==(const SpawnDaemon&, const SpawnDaemon&) = default;
};
struct Ask {  // any command that is answered, and who is served
  QuestionId id = 0;
  friend bool operator==(const Ask&, const Ask&) = default;
};
struct ApplyLimits {
  QuestionId id = 0;
  DaemonLimits limits;
  friend bool operator==(const ApplyLimits&, const ApplyLimits&) = default;
};
struct ReadLimits {
  QuestionId id = 0;
  DaemonLimits limits;  // which devices to ask for
  friend bool operator==(const ReadLimits&, const ReadLimits&) = default;
};
struct ApplyServerLimits {  // a server that began under other limits
  QuestionId id = 0;
  int server = 0;
  DaemonLimits limits;
  friend bool operator==(const ApplyServerLimits&, const ApplyServerLimits&) = default;
};
struct Ping {
  friend bool operator==(const Ping&, const Ping&) = default;
};
struct OpenEndpoints {  // put the daemon's socket into every endpoint
  friend bool operator==(const OpenEndpoints&, const OpenEndpoints&) = default;
};
struct Quit {
  QuestionId id = 0;
  Duration patience{};
  friend bool operator==(const Quit&, const Quit&) = default;
};
struct SignalTerm {
  friend bool operator==(const SignalTerm&, const SignalTerm&) = default;
};
struct SignalKill {
  friend bool operator==(const SignalKill&, const SignalKill&) = default;
};
using Action = std::variant<SpawnDaemon, Ask, ApplyLimits, ReadLimits, ApplyServerLimits, Ping, OpenEndpoints, Quit,
                            SignalTerm, SignalKill>;

// Whether the daemon greets who connects, as the real one was seen to (docs/internals/evidence/mps-handshake.md). Tried
// at each start: where it does not, muteness is found by questions alone, which takes longer.
enum class Greeting { kUntried, kGiven, kMissing };

struct Supervisor {
  State state = State::kAbsent;
  MonoTime since{};    // when it entered `state`
  std::string reason;  // why it is not serving, or what to know while it does; for people
  DaemonLimits desired;
  std::optional<DaemonLimits> turn;         // memory and threads as told for a grant's clients; absent: `desired`'s
  bool turn_unknown = false;                // telling it failed: until it is told again, there is nothing to compare
  std::string turn_problem;                 // why
  std::optional<LimitsReadBack> read_back;  // what the daemon says it enforces
  std::vector<ServerSeen> servers;          // when last answered
  std::vector<int> older_servers;           // servers that do not take the limits and keep others
  std::vector<int> older_clients;           // clients that came in under other limits and keep them
  std::uint64_t restarts = 0;               // daemons started after the first
  int failures = 0;                         // in a row
  std::uint64_t jitter = 0;                 // state of the generator; seed it differently for each pool

  bool alive = false;  // a daemon process exists
  bool dying = false;  // and was sent SIGKILL
  bool may_have_clients = false;
  bool verify_first = false;                      // adopted: look before touching
  std::vector<std::pair<int, int>> server_tries;  // server, times it was told since the limits changed
  std::vector<int> gone_servers;  // since the last question about servers was asked: its answer may name them still
  Greeting greeting = Greeting::kUntried;
  bool mute = false;     // it served, and then did not answer
  bool pinging = false;  // a ping is under way
  std::optional<MonoTime> ping_at;
  bool start_again = false;  // asked to start while stopping
  bool spawned_before = false;
  int stop_stage = 0;  // 0 quit, 1 SIGTERM, 2 SIGKILL
  MonoTime unanswered_since{};
  QuestionId last_question = 0;
  QuestionId question = 0;  // the open one
  MonoTime question_due{};
  Duration question_time{};  // what it may take once it is asked
  std::optional<MonoTime> timer;

  friend bool operator==(const Supervisor&, const Supervisor&) = default;
};

struct Stepped {
  Supervisor next;
  std::vector<Action> actions;
};
Stepped step(Supervisor state, const Event& event, MonoTime now, const SupervisorSettings& settings);

// What the daemon and its servers were told for clients to come.
DaemonLimits told(const Supervisor& state);

// The daemon alone, whatever becomes of the pool: "absent", "starting", "running", "mute", "stopping".
std::string_view daemon_state(const Supervisor& state);

// When the machine wants a Tick at the latest; absent = it waits for somebody else.
std::optional<MonoTime> wake_at(const Supervisor& state);

}  // namespace tranche::mps
