#pragma once
// Carries out what the proof machine (mps/proof/proof.h) decides for one pool: runs the CUDA starts, and terminates
// clients, servers or the daemon when they fail. It decides nothing itself. A CUDA start is `tranche probe` through the
// daemon's pipe, on one device of the pool after the other: a child process, because a start that hangs cannot be
// cancelled. Loop thread.
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mps/proof/proof.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mps {

// Held while a proof runs; its content is opaque to the prover. Dropping it ends the turn.
using ProofTurn = std::shared_ptr<void>;

class PoolDaemon;

// A part of its pool's daemon.
class Prover {
 public:
  Prover(os::Loop& loop, ProofSettings settings, PoolDaemon& pool) : loop_(loop), settings_(settings), pool_(pool) {}
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;

  void feed(ProofEvent event);
  void set_every(Duration every);  // 0 = no more proofs
  const Proof& state() const { return state_; }
  pid_t pid() const { return process_ ? process_->ref().pid : 0; }  // of the running CUDA start; 0 = none

 private:
  void act(const StartProof&);
  void act(const CancelProof&);
  void act(const EndStep& action);
  void start();
  void start_next();
  void ended(const os::ExitNote& note, bool timed_out);
  void finish(const ProofReading& reading);
  std::vector<int> clients() const;  // of the pool's servers, without our own CUDA starts
  void end_servers();
  void server_gone(pid_t pid);
  void arm_timer();

  os::Loop& loop_;
  ProofSettings settings_;
  PoolDaemon& pool_;
  Proof state_;
  std::deque<ProofEvent> events_;
  bool stepping_ = false;
  os::Timer timer_{loop_};
  os::Timer soon_{loop_};  // for work that must not run inside the caller's callback
  os::Timer kill_timer_{loop_};
  os::Timer turn_timer_{loop_};
  ProofTurn turn_;
  std::size_t device_ = 0;   // of the pool, on which CUDA is started
  std::size_t clients_ = 0;  // of the pool, when the proof began
  std::string output_;
  os::Timer deadline_{loop_};
  std::unique_ptr<os::Process> process_;
  std::set<int> own_;                                 // CUDA starts; the servers may list one for a while after its end
  std::vector<std::unique_ptr<os::Process>> ending_;  // servers
};

}  // namespace tranche::mps
