#pragma once
// One pool alive: carries out what the supervisor (mps/daemon/supervisor.h) decides for one control daemon and tells it
// what happened. Owns the daemon's process, its control sessions, its log and its directories, and the prover, which
// starts CUDA through it. It decides nothing itself.
//
// Dropping a Pool that was not stopped leaves the daemon running, for the next start of this program to adopt: clients
// outlive us. Loop thread only.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "mps/control/control_client.h"
#include "mps/control/dialect.h"
#include "mps/control/faults.h"
#include "mps/control/listed_clients.h"
#include "mps/control/log_lines.h"
#include "mps/control/log_tail.h"
#include "mps/control/sessions.h"
#include "mps/control/side_query.h"
#include "mps/daemon/binary.h"
#include "mps/daemon/daemon_home.h"
#include "mps/daemon/orphans.h"
#include "mps/daemon/ping.h"
#include "mps/daemon/supervisor.h"
#include "mps/limits/grant_limits.h"
#include "mps/pool/client_ending.h"
#include "mps/pool/endings.h"
#include "mps/pool/pool_dirs.h"
#include "mps/proof/prover.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/process/process.h"

namespace tranche::host {

struct PoolSettings {
  std::string id;
  std::vector<std::string> devices;  // UUIDs
  allocate::Paths paths;
  ControlBinary binary;
  bool multiuser = false;  // start it with -M
  mps::Tier tier = mps::Tier::kV2;
  DaemonHome home;
  mps::SupervisorSettings supervisor;
  mps::ProofSettings proof;
  std::vector<std::string> proof_program;  // argv of `tranche probe`, before its options; empty = no proofs
  std::uint64_t seed = 0;
  // Lets clients in, each time that limits are in force. Empty: the daemon's socket is linked into every endpoint.
  std::function<Status()> open_endpoints = {};
  // Where a relay lets clients in: ProverMeans::take_turn.
  std::function<ProofTurn(std::function<void()> go)> take_turn = {};
  // The pool's clients as its relay knows them, beside those that its servers list. Absent: they do not come through a
  // relay, and what is known of them is up to a few seconds old. May be empty.
  std::function<std::optional<std::vector<int>>()> relay_clients = {};
  std::shared_ptr<Endings> endings = {};  // of all pools. Null: it has its own, which write no file
  std::shared_ptr<LogWatch> logs = {};    // of all pools. Null: it has its own
};

// What has happened since this program started; for metrics.
struct PoolCounters {
  std::uint64_t clients = 0;       // let in or waiting to be
  std::uint64_t fatal_faults = 0;  // a client broke the GPU for all
  std::uint64_t fault_victims = 0;
  std::uint64_t servers = 0;  // started
  std::uint64_t clients_refused = 0;
  std::uint64_t exceptions = 0;     // of servers
  std::uint64_t unclean_exits = 0;  // a client died with work in flight and took others along
};

class Pool {
 public:
  struct Callbacks {
    std::function<void(const mps::Supervisor& before, const mps::Supervisor& after)>
        on_change;                                    // what people see changed
    std::function<void(const mps::LogLine&)> on_log;  // lines that say something (LogWhat other than kOther)
    std::function<void(const mps::Fault&)> on_fault;  // a new one; its victims are still being told
    std::function<void(const mps::Proof& before, const mps::Proof& after)> on_proof;
  };
  static Result<std::unique_ptr<Pool>> open(Loop& loop, PoolSettings settings, Callbacks callbacks);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void want(const mps::DaemonLimits& limits);  // start, or change what is enforced
  // The same for namespaces of some grants, without leaving service for all others: they are told and
  // read back beside the supervisor's questions. done comes once, as a turn of its own, and never when the pool is
  // dropped. After an error everything is put in order by the supervisor, as it was.
  void change(const mps::DaemonLimits& limits, Duration deadline, std::function<void(Status)> done);
  void aside(mps::Exchange question, Duration deadline, Aside::Done done);  // one question; done as above
  void stop();
  void look();  // at its servers' clients, now
  // New clients may not start any more: has a CUDA start tried soon.
  void doubt(const std::string& why) { prover_.feed(mps::Doubt{mps::DoubtKind::kFault, why}); }
  void prove_every(Duration every) { prover_.set_every(settings_.proof_program.empty() ? Duration{} : every); }
  // Has the daemon and its servers hold these limits for whom they take next, unless they do already; then `done` comes
  // at once. One after the other: of those that wait the newest counts, the others end with kUnavailable. kInvalid:
  // they read back otherwise. Dropping the pool tells nobody.
  using Told = std::function<void(const Status&)>;
  void tell_next(const mps::DaemonLimits& limits, Told done);
  bool holds(const mps::DaemonLimits& limits) const;  // told and read back already
  // The limits of clients that are worth what the pool allows at most.
  mps::DaemonLimits own_limits() const { return mps::limits_for(state_.desired, settings_.devices); }
  // Ends clients by stop, wait, kill (client_ending.h); their queued GPU work is given stop_patience(), or nothing
  // where they are the pool's only clients. A process that neither the relay nor the servers know is not touched. One
  // outcome for each distinct client; done comes once, as a callback of its own, and never when the pool is dropped.
  void end_clients(const EndRequest& request, ClientEnding::Done done);
  void client_ended(int pid) { listed_.ended(pid); }  // as the relay saw; its servers may list the pid for a while
  std::vector<ProcessRef> listed() const;             // by its servers, while they live
  void set_stop_patience(Duration patience) { stop_patience_ = patience; }
  Duration stop_patience() const { return stop_patience_; }

  const mps::Supervisor& supervisor() const { return state_; }
  const mps::Proof& proof() const { return prover_.state(); }
  pid_t proof_pid() const { return prover_.pid(); }  // a client of ours; 0 = none runs
  const std::deque<mps::Fault>& faults() const { return faults_.faults(); }
  const std::vector<std::string>& start_notes() const { return start_notes_; }
  // What the pool as a whole is: the supervisor's word until its daemon serves, then the proof's ("serving", "proving",
  // "wedged"); and why.
  std::string_view state_word() const;
  std::string reason() const;
  const PoolSettings& settings() const { return settings_; }
  const mps::Dialect& dialect() const { return dialect_; }
  const PoolCounters& counters() const { return counters_; }
  std::string pipe() const { return dirs_.pipe(); }
  pid_t daemon_pid() const { return daemon_ ? daemon_->ref().pid : 0; }
  bool gone() const;  // stopped, and no process of it is left
  // Of questions to the daemon.
  const std::map<std::string, std::string>& environment() const { return environment_; }
  ControlTarget target() const { return {settings_.binary.path, environment_}; }

 private:
  Pool(Loop& loop, PoolSettings settings, Callbacks callbacks, PoolDirs dirs);
  void feed(mps::Event event);
  void arm_timer();
  void tell_change(const mps::Supervisor& before);

  void act(const mps::SpawnDaemon&);
  void act(const mps::Ask& action);
  void act(const mps::ApplyLimits& action);
  void act(const mps::ReadLimits& action);
  void act(const mps::ApplyServerLimits& action);
  void act(const mps::Ping&);
  void act(const mps::OpenEndpoints&);
  void act(const mps::Quit& action);
  void act(const mps::SignalTerm&);
  void act(const mps::SignalKill&);

  Result<bool> adopt_leftover();  // true: a daemon of ours runs and is watched now
  Status spawn();
  void daemon_ended(const ExitNote& note);
  void run(mps::QuestionId id, const mps::Run& what, Duration deadline, std::function<void(const std::string&)> read);
  void converse(mps::QuestionId id, mps::Exchange exchange);  // run after run until it comes to an event
  struct Telling {                                            // of limits for the next clients
    mps::DaemonLimits limits;
    Told done;
    int sessions = 0;
    std::unique_ptr<Question> question = {};
  };
  void tell_servers(std::vector<int> servers);
  void hear_servers(const std::vector<int>& servers, const Result<std::string>& reply);
  void told(const Result<mps::LimitsReadBack>& read);
  void break_off_telling(const std::string& why);
  void read_log_line(const std::string& line);
  void count(const mps::LogLine& line);
  void tell_server(const mps::LogLine& line);
  void doubt(const mps::LogLine& line);
  bool proof_holds_daemon() const;
  void heard_servers(std::uint64_t asked, const std::vector<mps::ServerSeen>& servers);
  std::optional<ProcessRef> client(int pid) const;
  std::vector<int> clients() const;
  void end_known(const EndedProcesses& processes, std::vector<mps::Terminated> others, ClientEnding::Done done);
  bool are_alone(const std::vector<int>& pids) const;
  ProverMeans prover_means();
  std::map<std::string, std::string> proof_environment() const;
  void tell_prover(mps::State before);

  Loop& loop_;
  PoolSettings settings_;
  Callbacks callbacks_;
  PoolDirs dirs_;
  const mps::Dialect& dialect_;
  std::map<std::string, std::string> environment_;         // of questions to the daemon
  std::map<std::string, std::string> daemon_environment_;  // its own, with paths as its home names them
  mps::Supervisor state_;
  PoolCounters counters_;
  std::deque<mps::Event> events_;
  bool stepping_ = false;
  Timer timer_{loop_};
  std::unique_ptr<Process> daemon_;
  Sessions sessions_;
  std::unique_ptr<Question> question_;
  mps::DaemonLimits looking_for_;  // what was in force when the last look at the servers began
  std::uint64_t asked_ = 0;        // and when that was (boot_ticks()); 0 = it has not begun
  ListedClients listed_;
  std::unique_ptr<Telling> telling_;       // the one under way
  std::unique_ptr<Telling> telling_next_;  // and the one that waits for it
  std::uint64_t last_aside_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Aside>> asides_;
  Duration stop_patience_ = std::chrono::seconds(2);
  std::deque<int> ended_;  // by us, not long ago
  std::unique_ptr<Ping> ping_;
  Prover prover_;
  bool fault_handled_ = false;
  mps::FaultBook faults_;
  std::vector<std::string> start_notes_;
  std::unique_ptr<LogTail> log_;
  Orphans orphans_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // an end may be done after our own
};

}  // namespace tranche::host
