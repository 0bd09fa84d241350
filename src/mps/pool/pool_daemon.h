#pragma once
// The daemon of one pool: carries out what the supervisor (mps/daemon/supervisor.h) decides for one control daemon and
// the proof machine (mps/proof/proof.h) for its CUDA starts, and sends them events. Owns the daemon's process, control
// sessions, log and directories. It decides nothing itself.
//
// Dropping one that was not stopped leaves the daemon running, for the next start of this program to adopt: clients
// survive a restart of this program. Loop thread only.
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "mps/control/control_client.h"
#include "mps/control/log_lines.h"
#include "mps/control/log_tail.h"
#include "mps/control/questions.h"
#include "mps/daemon/daemon_home.h"
#include "mps/daemon/ping.h"
#include "mps/daemon/supervisor.h"
#include "mps/pool/client_ending.h"
#include "mps/pool/pool_dirs.h"
#include "mps/proof/proof.h"
#include "mps/protocol/requests.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mps {

// By the pid that a server lists: the process that it means. Absent: it has exited, or a later list decides.
using ListedProcesses = std::map<int, std::optional<os::ProcessRef>>;

// The processes that the servers of one pool list as their clients. A server lists only pids, and its list can be
// several seconds old. Each pid therefore identifies the process that had it when the server first listed it, and never
// a later process with the same number. Loop thread.
class ListedClients {
 public:
  using Look = std::function<std::optional<os::ProcessRef>(pid_t)>;
  explicit ListedClients(Look look = os::process_ref) : look_(std::move(look)) {}

  // Records all pids that the servers list in an answer to a question of time `asked` (boot_ticks()). A process that
  // started after the question is left out until the next answer, because the server may mean an earlier process with
  // its number.
  void heard(std::uint64_t asked, const std::vector<int>& pids);
  void ended(int pid);  // the process has ended; the pid is ignored until a list omits it
  // The process that this pid was listed for, while it lives.
  std::optional<os::ProcessRef> find(int pid) const;
  bool has(int pid) const { return known_.contains(pid); }  // dead or alive

 private:
  Look look_;
  ListedProcesses known_;
};

// Held while a proof runs; its content is opaque to the prover. Dropping it ends the turn.
using ProofTurn = std::shared_ptr<void>;

// The clients of the pool as its endpoints know and admit them; this class knows none.
class Admission {
 public:
  // The daemon serves, and its limits are enforced: clients may connect.
  virtual Status serve() { return {}; }
  virtual void hold() {}  // the daemon does not serve any more: clients wait
  // Makes the pool's own limits, and no grant's, apply to a proof until the turn is dropped; `go` runs once, perhaps
  // inside the call.
  virtual ProofTurn take_turn(std::function<void()> go) {
    go();
    return nullptr;
  }
  // The clients that connected through a relay, in addition to those that the servers list. Absent: clients do not
  // connect through a relay, and the list is up to a few seconds old.
  virtual std::optional<std::vector<int>> relay_clients() const { return std::nullopt; }
  virtual const std::string* grant_of(int) const { return nullptr; }  // null: not a known client
  // For those of these pids that are clients which have exited, and which the server still has
  // (ClientTable::remnants()): the processes to end in their place. `own`: the pool's processes. `done` runs once,
  // perhaps inside the call, and never after this object is destroyed.
  virtual void find_heirs(const std::vector<int>&, std::set<int>, const std::function<void(const Heirs&)>& done) {
    done({});
  }
  virtual void read_log(const LogLine&) {}
  // The servers, and all clients that they list in an answer to a question of time `asked` (boot_ticks()).
  virtual void servers_listed(std::uint64_t, const std::vector<int>&, const ListedProcesses&) {}
  virtual ~Admission() = default;
};

// What the daemons of all pools of a program share.
struct DaemonSettings {
  grants::Paths paths;
  DaemonHome home = {};
  SupervisorSettings supervisor = {};
  ProofSettings proof = {};
  std::vector<std::string> proof_program = {};  // argv of `tranche probe`, without its options; empty = no proofs
  std::shared_ptr<Endings> endings = {};        // null: the pool's own, which writes no file
  std::shared_ptr<LogWatch> logs = {};          // null: the pool's own
  KilledWith killed_with = {};                  // may outlive the pool. Empty: such clients are not known
};

struct PoolSettings : DaemonSettings {
  std::string id = {};
  std::vector<std::string> devices = {};  // UUIDs
  ControlBinary binary = {};
  bool multiuser = false;          // start the daemon with -M
  Admission* admission = nullptr;  // null: no client connects
};

class Prover;         // starts CUDA through the daemon
class EndingServers;  // servers that have to exit

class PoolDaemon {
 public:
  // on_change: a visible property changed, of the supervisor, the proof or the faults.
  static Result<std::unique_ptr<PoolDaemon>> open(os::Loop& loop, PoolSettings settings,
                                                  std::function<void()> on_change);
  ~PoolDaemon();
  PoolDaemon(const PoolDaemon&) = delete;
  PoolDaemon& operator=(const PoolDaemon&) = delete;

  void want(const DaemonLimits& limits) { feed(Want{limits}); }
  void stop() { feed(StopAsked{}); }  // for good
  void look() { feed(Look{}); }       // lists the servers' clients now
  // New clients may be unable to start: starts a proof soon. These proofs have a minimum interval, because tenants that
  // fill the server can cause doubts.
  void doubt() { feed(Doubt{.paced = true}); }
  void prove_every(Duration every);
  // Makes the daemon and its servers hold these limits for the clients that they accept next. If they hold them
  // already, `done` runs at once. kUnavailable: the daemon does not serve, or an earlier call is not done. kInvalid:
  // the limits read back differ. `done` never runs after this object is destroyed.
  using Done = std::function<void(const Status&)>;
  void set_next_limits(const DaemonLimits& limits, Done done);
  bool holds(const DaemonLimits& limits) const;  // set and read back already
  // Terminates clients by stop, wait, kill (client_ending.h). Their queued GPU work gets the stop patience, or no time
  // if they are the pool's only clients. A process that neither the relay nor the servers know is not touched, unless
  // the kernel kills it with these (KilledWith): it gets the same time, and no outcome. One outcome for each distinct
  // client; `done` runs once, in a callback of its own, and never after the pool is destroyed.
  void end_clients(const std::vector<int>& pids, Endings::Done done);
  void client_ended(int pid) { listed_.ended(pid); }  // from the relay; the servers may list the pid for a while
  void set_stop_patience(Duration patience) { stop_patience_ = patience; }

  const Supervisor& supervisor() const { return state_; }
  const Proof& proof() const { return proof_; }
  pid_t proof_pid() const;  // our own client; 0 = no proof runs
  const FaultHistory& faults() const { return faults_; }
  const std::vector<std::string>& start_notes() const { return start_notes_; }
  // The state of the whole pool and its reason: the supervisor's until the daemon serves, then the proof's ("serving",
  // "proving", "wedged").
  std::string_view state_name() const;
  std::string reason() const;
  const PoolSettings& settings() const { return settings_; }
  std::string pipe() const { return settings_.paths.pipe(settings_.id); }
  pid_t daemon_pid() const { return daemon_ ? daemon_->ref().pid : 0; }
  bool gone() const;  // stopped, and none of its processes is left

 private:
  friend class Prover;
  PoolDaemon(os::Loop& loop, PoolSettings settings, std::function<void()> on_change);
  using AnyEvent = std::variant<Event, ProofEvent>;
  void feed(AnyEvent event);
  void carry_out(const Event& event);
  void carry_out(const ProofEvent& event);
  void arm_timer();

  void act(const SpawnDaemon&);
  void act(const Ask& action);
  void act(const PingDaemon&);
  void act(const OpenEndpoints&);
  void act(const Quit& action);
  void act(const KillDaemon&);

  Result<bool> adopt();  // true: a daemon of ours runs and is now watched
  Status spawn();
  void daemon_ended(const os::ExitNote& note);
  // `done` runs once, in a callback of its own. `open` holds the run; dropping that ends it all.
  using Heard = std::function<void(Result<Answered>)>;
  void ask(std::unique_ptr<Question>& open, DaemonQuestion what, Heard done);
  struct LimitsChange {
    DaemonLimits limits;
    Done done;
    std::unique_ptr<Question> question = {};
  };
  void next_limits_set(const Result<Answered>& answered);
  void abandon_next_limits();
  std::vector<int> servers() const { return server_pids(state_.servers); }             // as listed last
  std::vector<int> clients_of_servers() const { return client_pids(state_.servers); }  // the same
  void remember(pid_t server);
  void read_log_line(const std::string& line);
  void act_on(const LogLine& line);
  void heard_servers(std::uint64_t asked, const std::vector<ServerSeen>& servers);
  std::optional<os::ProcessRef> client(int pid) const;
  std::vector<int> clients() const;
  struct Target {  // of a termination
    int pid = 0;
    std::vector<os::ProcessRef> processes = {};        // that are ended for it: itself, or its heirs
    std::optional<os::ProcessRef> unlisted = {};       // the process, which was not known as a client
    std::string otherwise = "the process has exited";  // why there is none
    Terminated outcome_in(const std::vector<Terminated>& outcomes) const;
  };
  void end_targets(std::vector<Target> targets, Endings::Done done);
  void end_processes(std::vector<Target> targets, Endings::Done done);
  bool are_alone(const std::vector<os::ProcessRef>& processes) const;
  void inform_prover(State before);

  os::Loop& loop_;
  PoolSettings settings_;
  std::function<void()> on_change_;
  std::map<std::string, std::string> environment_;         // for queries to the daemon
  std::map<std::string, std::string> daemon_environment_;  // the daemon's own, with paths as its home names them
  Supervisor state_;
  Proof proof_;
  std::deque<AnyEvent> events_;
  bool stepping_ = false;
  os::Timer timer_{loop_};
  std::unique_ptr<os::Process> daemon_;
  Sessions sessions_;
  std::unique_ptr<LimitsChange> next_limits_;  // for the clients that are accepted next
  std::unique_ptr<Question> question_;
  ListedClients listed_;
  std::list<std::unique_ptr<Question>> side_queries_;  // outside the supervisor's questions
  Duration stop_patience_ = std::chrono::seconds(2);
  std::unique_ptr<Ping> ping_;
  std::unique_ptr<Prover> prover_;
  FaultHistory faults_;
  std::vector<std::string> start_notes_;
  std::unique_ptr<LogTail> log_;
  std::map<pid_t, os::ProcessRef> known_servers_;  // of the daemon that runs
  // Also those of daemons that have ended, which exit by themselves (measured); one that does not would hold GPU memory
  // and accept no commands.
  std::unique_ptr<EndingServers> ending_servers_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a termination may finish after our end
};

}  // namespace tranche::mps
