#pragma once
// Carries out what the proof machine (mps/proof/proof.h) decides for one pool: runs the CUDA starts, and terminates
// clients, servers or the daemon when they fail. It decides nothing itself. Loop thread.
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mps/proof/proof.h"
#include "mps/proof/proof_run.h"
#include "mps/protocol/replies.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

// Held while a proof runs; its content is opaque to the prover. Dropping it ends the turn.
using ProofTurn = std::shared_ptr<void>;

// What the prover needs from its pool.
struct ProverCallbacks {
  using Ended = std::function<void(const std::vector<mps::Terminated>&)>;
  std::function<ProofPlan()> plan;
  std::function<std::vector<int>()> clients;  // host process ids, including the proof's own
  std::function<std::vector<int>()> servers;
  std::function<void(std::vector<int> pids, Ended done)> end_clients;
  std::function<void(const std::string& why)> replace_daemon;
  std::function<void(const mps::Proof& before)> on_change;
  // Makes the pool's own limits, and no grant's, apply to the start until the turn is dropped; `go` runs once, perhaps
  // inside the call. Empty: they always apply.
  std::function<ProofTurn(std::function<void()> go)> take_turn = {};
};

class Prover {
 public:
  Prover(Loop& loop, mps::ProofSettings settings, ProverCallbacks callbacks)
      : loop_(loop), settings_(settings), callbacks_(std::move(callbacks)) {}
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
  void end_clients();
  void end_servers();
  void server_gone(pid_t pid);
  void arm_timer();

  Loop& loop_;
  mps::ProofSettings settings_;
  ProverCallbacks callbacks_;
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
