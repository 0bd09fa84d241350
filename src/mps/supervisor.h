#pragma once
// One MPS control daemon as a pure state machine: what happened and what time it is → the new state and what to do.
// host/mps carries the actions out and turns the world into events. Every arrow is a row in supervisor_test.cpp.
//
//   Absent ──start──► Starting ──answers──► Configuring ──limits read back──► Serving
//     ▲                │  ▲  ▲                    │ refused, mute, differs     │   │
//     │      exit, mute│  │  └─ mute: ask again ──┼────────────────────────────┘   │ exit
//     │                ▼  │ back-off over         ▼                                │
//     │             BackingOff ◄──────────────────┴────────────────────────────────┘
//   any ──stop──► Stopping ──exit──► Absent     (quit, then SIGTERM, then SIGKILL)
//   too many failures in a row ──► GivenUp ──(new desired limits or "retry")──► Starting
//
// Two rules on top. A daemon that may have clients (it served, or it was adopted) is not killed for a question that
// failed: it leaves Serving at once, is asked again, and is ended only after `mute_patience` without an answer. And
// doors are opened only when limits are in force, so that no client gets in before them.
//
// At most one question is open; its answer carries the id it was asked with, and any other id is ignored.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mps/limits.h"

namespace tranche::mps {

enum class State { kAbsent, kStarting, kConfiguring, kServing, kBackingOff, kStopping, kGivenUp };
std::string_view to_string(State state);  // "absent", "starting", …, "backing-off", "given-up"

struct SupervisorSettings {
  Duration ask_again = std::chrono::milliseconds(50);  // between questions while the daemon does not answer yet
  Duration start_deadline = std::chrono::seconds(15);  // from spawning to the first answer
  Duration health_every = std::chrono::seconds(5);
  Duration question_deadline = std::chrono::seconds(1);  // for each question
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
  std::string status;        // "ACTIVE"; "" when it would not say
  std::vector<int> clients;  // host process ids
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
};
struct LimitsApplied {
  QuestionId id = 0;
};
struct LimitsRead {
  QuestionId id = 0;
  LimitsReadBack values;
};
struct QuestionFailed {
  QuestionId id = 0;
  Error error;  // kTimeout, kNotFound, kInvalid: the daemon's fault; other kinds: ours
};
struct Tick {};
struct StopAsked {};
struct DesiredChanged {
  DaemonLimits desired;
};
struct Retry {};
using Event = std::variant<Start, Spawned, SpawnFailed, DaemonExited, Answered, LimitsApplied, LimitsRead,
                           QuestionFailed, Tick, StopAsked, DesiredChanged, Retry>;

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
struct OpenDoors {  // put the daemon's socket into every door
  friend bool operator==(const OpenDoors&, const OpenDoors&) = default;
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
using Action = std::variant<SpawnDaemon, Ask, ApplyLimits, ReadLimits, OpenDoors, Quit, SignalTerm, SignalKill>;

struct Supervisor {
  State state = State::kAbsent;
  MonoTime since{};    // when it entered `state`
  std::string reason;  // why it is not serving, or what to know while it does; for people
  DaemonLimits desired;
  std::optional<LimitsReadBack> read_back;  // what the daemon says it enforces
  std::vector<ServerSeen> servers;          // when last answered
  std::vector<int> older_servers;           // servers that started under other limits and keep them
  std::uint64_t restarts = 0;               // daemons started after the first
  int failures = 0;                         // in a row
  std::uint64_t jitter = 0;                 // state of the generator; seed it differently for each pool

  bool alive = false;  // a daemon process exists
  bool dying = false;  // and was sent SIGKILL
  bool may_have_clients = false;
  bool verify_first = false;       // adopted: look before touching
  bool servers_are_older = false;  // those in the next answer started before the limits to come
  bool start_again = false;        // asked to start while stopping
  bool spawned_before = false;
  int stop_stage = 0;  // 0 quit, 1 SIGTERM, 2 SIGKILL
  MonoTime unanswered_since{};
  QuestionId last_question = 0;
  QuestionId question = 0;  // the open one
  MonoTime question_due{};
  std::optional<MonoTime> timer;

  friend bool operator==(const Supervisor&, const Supervisor&) = default;
};

struct Stepped {
  Supervisor next;
  std::vector<Action> actions;
};
Stepped step(Supervisor state, const Event& event, MonoTime now, const SupervisorSettings& settings);

// When the machine wants a Tick at the latest; absent = it waits for somebody else.
std::optional<MonoTime> wake_at(const Supervisor& state);

}  // namespace tranche::mps
