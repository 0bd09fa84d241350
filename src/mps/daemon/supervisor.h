#pragma once
// One MPS control daemon as a pure state machine: an event and the time → the new state and the actions. mps/pool
// carries out the actions and reports events. supervisor_test.cpp has a row for every arrow.
//
//   Absent ──start──► Starting ──answers──► Configuring ──limits read back──► Serving
//     ▲                │  ▲  ▲                    │ refused, mute, differs     │   │
//     │      exit, mute│  │  └─ mute: ask again ──┼────────────────────────────┘   │ exit
//     │                ▼  │ back-off over         ▼                                │
//     │             BackingOff ◄──────────────────┴────────────────────────────────┘
//   any ──stop──► Stopping ──exit──► Absent     (quit, then SIGKILL)
//   too many failures in a row ──► GivenUp ──(desired limits)──► Starting
//
// Three further rules. First, the daemon is pinged between questions: it greets each connection at once, so an
// unresponsive daemon leaves Serving within one second, or within 1.5 s while it has no client. Second, a daemon that
// may have clients (it has served, or it was adopted) is not killed because a question failed: it leaves Serving at
// once, is asked again, and is terminated only after `mute_patience` without an answer. Third, endpoints are opened
// only after the limits of the daemon and of every running server are enforced, so that no client connects before them.
// Running clients keep the limits that they started with: limits apply to new clients.
//
// If a relay admits clients one after the other, each with its grant's own limits (mps/protocol/requests.h), the
// daemon and its servers hold the limits of the last admitted client: `turn`. They are then compared with those.
//
// At most one question is open: an action that asks another one, or a state that does not wait for its answer, drops
// it.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/enum_names.h"
#include "base/result.h"
#include "base/time.h"
#include "mps/limits/limits.h"

namespace tranche::mps {

enum class State { kAbsent, kStarting, kConfiguring, kServing, kBackingOff, kStopping, kGivenUp };
ENUM_NAMES(State::kGivenUp, "absent", "starting", "configuring", "serving", "backing-off", "stopping", "given-up")

struct SupervisorSettings {
  Duration ask_again = std::chrono::milliseconds(50);  // between questions while the daemon does not answer yet
  Duration start_deadline = std::chrono::seconds(15);  // from spawning to the first answer
  Duration health_every = std::chrono::seconds(5);
  Duration rest_every = std::chrono::seconds(30);  // the same while no server has a client and the log shows none
  Duration fault_every = std::chrono::seconds(1);  // the same while a server handles a fault
  Duration ping_every = std::chrono::milliseconds(500);
  Duration rest_ping_every = std::chrono::seconds(1);  // the same while no server has a client
  Duration ping_deadline = std::chrono::milliseconds(400);
  Duration question_deadline = std::chrono::seconds(1);  // for each question
  Duration answer_patience = std::chrono::minutes(1);    // for its answer, which may wait behind other sessions
  Duration mute_patience = std::chrono::seconds(30);     // how long a daemon with clients may be unresponsive
  Duration backoff_first = std::chrono::milliseconds(200);
  Duration backoff_longest = std::chrono::seconds(30);
  Duration stable_after = std::chrono::seconds(60);   // serving this long resets the count of failures
  int start_limit = 10;                               // consecutive failures; then GivenUp
  Duration quit_patience = std::chrono::seconds(10);  // for clients to exit after "quit"
  Duration exit_patience = std::chrono::seconds(5);   // for the daemon to exit after that; then SIGKILL
  Duration kill_again = std::chrono::seconds(1);
};

struct ServerSeen {
  int pid = 0;
  std::string status = {};                  // "INITIALIZING", "ACTIVE", "FAULT"; "" if not reported
  std::vector<int> clients = {};            // host process ids
  std::optional<DaemonLimits> limits = {};  // for new clients; absent if not reported
  friend bool operator==(const ServerSeen&, const ServerSeen&) = default;
};

struct Want {  // starts the daemon, or changes its limits; without effect while it stops
  DaemonLimits desired;
};
struct Spawned {
  Result<bool> adopted = false;  // true: a daemon of ours from an earlier run is running; an Error: none was started
};
struct DaemonExited {
  std::string note;  // "was killed by signal 9 (Killed)"
};
struct Answered {
  std::vector<ServerSeen> servers;
  DaemonLimits defaults = {};  // the daemon's, for servers to come
};
struct ServerLogged {  // a server's status from a log line, which arrives sooner than an answer
  int pid = 0;
  std::string status;  // "" = it exited
};
struct QuestionFailed {
  // kTimeout, kNotFound, kInvalid: the daemon's fault. kConflict: another program uses the session. Others: ours.
  Error error;
};
struct Pinged {
  Status greeted = {};
};
struct PingSkipped {};  // our own CUDA start runs: the daemon may be busy with it and is not unresponsive
struct Look {           // a client has connected, or is to exit: ask sooner than at the next interval
  Duration within = Duration::zero();
};
struct Replace {  // the daemon answers but does not work
  std::string why;
};
struct AdmissionLimitsSet {  // the daemon and its servers hold these limits for the next clients; read back
  DaemonLimits limits;
  DaemonLimits defaults;
};
struct AdmissionLimitsUnknown {  // what they hold is unknown; no client was admitted with it
  std::string why;               // "" = the pool itself cancelled
};
struct Tick {};
struct StopAsked {};
using Event = std::variant<Want, Spawned, DaemonExited, Answered, ServerLogged, AdmissionLimitsSet,
                           AdmissionLimitsUnknown, QuestionFailed, Pinged, PingSkipped, Look, Replace, Tick, StopAsked>;

struct SpawnDaemon {};  // or adopt the one that runs
struct Ask {            // for the daemon's defaults, and its servers with their clients and limits
  DaemonLimits limits;  // on the devices to query
  bool set = false;     // on the daemon and its servers first
};
struct PingDaemon {};
struct OpenEndpoints {};  // link the daemon's socket into every endpoint, or let the relay admit clients
struct Quit {
  Duration patience{};
};
struct KillDaemon {};
using Action = std::variant<SpawnDaemon, Ask, PingDaemon, OpenEndpoints, Quit, KillDaemon>;

// What is known of the running daemon, and forgotten at its end.
struct DaemonSeen {
  bool alive = false;  // a daemon process exists
  bool dying = false;  // and was sent SIGKILL
  bool may_have_clients = false;
  bool untouched = false;                   // adopted, and no limits were changed
  bool applied = false;                     // the limits were set since it is being configured
  bool mute = false;                        // it served, and then stopped answering
  std::optional<DaemonLimits> turn;         // memory and threads set for a grant's clients; absent: `desired`'s
  std::optional<std::string> turn_problem;  // why setting them failed: nothing to compare with until the next success
  std::optional<DaemonLimits> read_back;    // what the daemon reports
  std::vector<ServerSeen> servers;          // from the last answer
  int server_tries = 0;                     // times that servers with other limits were sent these
  // Exited since the last question about servers was sent: its answer may still list them.
  std::set<int> gone_servers;
  // The daemon greets each connection, as the real one does (docs/internals/evidence/mps-handshake.md). Without a
  // greeting, only questions detect an unresponsive daemon, which takes longer.
  bool greets = false;
  bool pinging = false;  // a ping is in progress
  std::optional<MonoTime> ping_at;
  std::optional<MonoTime> question_due;  // a question is open, until then
  friend bool operator==(const DaemonSeen&, const DaemonSeen&) = default;
};

struct Supervisor : DaemonSeen {
  State state = State::kAbsent;
  MonoTime since{};    // when it entered `state`
  std::string reason;  // for people: why it is not serving, or a note while it serves
  DaemonLimits desired;
  std::uint64_t restarts = 0;  // daemons started after the first
  int failures = 0;            // consecutive

  bool spawned_before = false;
  std::optional<MonoTime> timer;

  friend bool operator==(const Supervisor&, const Supervisor&) = default;
};

std::vector<Action> step(Supervisor& state, const Event& event, MonoTime now, const SupervisorSettings& settings);

// The limits that the daemon and its servers were sent for new clients.
DaemonLimits limits_to_set(const Supervisor& state);

// The daemon's own state, apart from the pool's: "absent", "starting", "running", "mute", "stopping".
std::string_view daemon_state(const Supervisor& state);

// Process ids in a list of servers.
std::vector<int> server_pids(const std::vector<ServerSeen>& servers);
std::vector<int> client_pids(const std::vector<ServerSeen>& servers);
std::uint32_t live_clients(const Supervisor& state);

// When step() needs a Tick at the latest; absent = it waits for another event.
std::optional<MonoTime> wake_at(const Supervisor& state);

}  // namespace tranche::mps
