#pragma once
// Carries out what the proof machine (mps/proof/proof.h) decides for one pool: runs the CUDA starts, and terminates
// clients, servers or the daemon when they fail. It decides nothing itself. Loop thread.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mps/proof/proof.h"
#include "mps/protocol/replies.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/process/process.h"

namespace tranche::host {

// Runs one CUDA start through a daemon's pipe, on one device of its pool after the other: `tranche probe` as a child
// process, because a start that hangs cannot be cancelled. Dropping it kills the child. Loop thread.
struct ProofPlan {
  std::vector<std::string> program;        // argv before "--json …": {"/proc/self/exe", "probe"}
  std::map<std::string, std::string> env;  // the daemon's: pipe directory, libraries
  std::vector<std::string> devices;        // UUIDs
  Duration deadline{};                     // for each stage of a start
  std::size_t clients = 0;                 // of the pool now
};

class ProofRun {
 public:
  // `done` runs once, in a callback of its own, and may destroy this object; it never runs after this object is
  // destroyed.
  ProofRun(Loop& loop, ProofPlan plan, std::function<void(const mps::ProofReading&)> done);
  ProofRun(const ProofRun&) = delete;
  ProofRun& operator=(const ProofRun&) = delete;

  pid_t pid() const { return process_ ? process_->ref().pid : 0; }

 private:
  void start_next();
  void ended(const ExitNote& note, bool timed_out);
  void finish(const mps::ProofReading& reading);

  Loop& loop_;
  ProofPlan plan_;
  std::function<void(const mps::ProofReading&)> done_;
  std::size_t at_ = 0;
  std::string output_;
  Timer timer_{loop_};
  std::unique_ptr<Process> process_;
};

// Held while a proof runs; its content is opaque to the prover. Dropping it ends the turn.
using ProofTurn = std::shared_ptr<void>;

class PoolDaemon;

// A part of its pool's daemon.
class Prover {
 public:
  Prover(Loop& loop, mps::ProofSettings settings, PoolDaemon& pool) : loop_(loop), settings_(settings), pool_(pool) {}
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;

  void feed(mps::ProofEvent event);
  void set_every(Duration every);  // 0 = no more proofs
  const mps::Proof& state() const { return state_; }
  pid_t pid() const { return run_ ? run_->pid() : 0; }  // of the running CUDA start; 0 = none

 private:
  void act(const mps::StartProof&);
  void act(const mps::CancelProof&);
  void act(const mps::EndStep& action);
  void start();
  void end_servers();
  void server_gone(pid_t pid);
  void arm_timer();

  Loop& loop_;
  mps::ProofSettings settings_;
  PoolDaemon& pool_;
  mps::Proof state_;
  std::deque<mps::ProofEvent> events_;
  bool stepping_ = false;
  Timer timer_{loop_};
  Timer soon_{loop_};  // for work that must not run inside the caller's callback
  Timer kill_timer_{loop_};
  Timer turn_timer_{loop_};
  ProofTurn turn_;
  std::unique_ptr<ProofRun> run_;
  std::vector<std::unique_ptr<Process>> ending_;  // servers
};

}  // namespace tranche::host
