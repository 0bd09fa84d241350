#include "mps/proof/prover.h"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace tranche::host {
namespace {

constexpr Duration kServerPatience = std::chrono::seconds(2);  // from SIGTERM to SIGKILL
constexpr Duration kTurnPatience = std::chrono::seconds(3);    // for clients that are connecting; then without a turn

}  // namespace

void Prover::feed(mps::ProofEvent event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  const mps::Proof before = state_;
  while (!events_.empty()) {
    const mps::ProofEvent next = std::move(events_.front());
    events_.pop_front();
    auto stepped = mps::step(std::move(state_), next, loop_.now(), settings_);
    state_ = std::move(stepped.next);
    for (const auto& action : stepped.actions) std::visit([this](const auto& a) { act(a); }, action);
  }
  stepping_ = false;
  arm_timer();
  const bool same = before.state == state_.state && before.reason == state_.reason &&
                    before.trusted == state_.trusted && before.step == state_.step && before.running == state_.running;
  if (!same) callbacks_.on_change(before);
}

void Prover::set_every(Duration every) {
  if (every == settings_.every) return;
  settings_.every = every;
  if (state_.serves) feed(mps::PoolServes{});
}

void Prover::arm_timer() {
  timer_.stop();
  const auto at = mps::wake_at(state_, settings_);
  if (!at) return;
  timer_.start(std::max(Duration{}, *at - loop_.now()), [this] { feed(mps::ProofTick{}); });
}

void Prover::act(const mps::StartProof&) {
  if (!callbacks_.take_turn) return start();
  turn_timer_.start(kTurnPatience, [this] { start(); });
  turn_.reset();
  turn_ = callbacks_.take_turn([this] {
    if (!turn_timer_.running()) return;  // it started without a turn
    turn_timer_.stop();
    start();
  });
}

void Prover::start() {
  run_ = std::make_unique<ProofRun>(loop_, callbacks_.plan(), [this](const mps::ProofReading& reading) {
    const pid_t own = pid();
    const auto ended = std::move(run_);
    turn_.reset();
    const auto clients = callbacks_.clients();
    const bool others = std::ranges::any_of(clients, [own](int client) { return client != own; });
    feed(mps::ProofEnded{reading.verdict, reading.reason, others, !callbacks_.servers().empty()});
  });
}

void Prover::act(const mps::CancelProof&) {
  turn_timer_.stop();
  run_.reset();
  turn_.reset();
}

void Prover::act(const mps::EndStep& action) {
  switch (action.step) {
    case mps::Step::kClients:
      return end_clients();
    case mps::Step::kServers:
      return end_servers();
    case mps::Step::kDaemon:
      soon_.start(Duration{}, [this, why = action.why] {
        callbacks_.replace_daemon("new CUDA programs do not start, and ending its clients and servers did not help: " +
                                  why);
      });
      return;
    case mps::Step::kNone:
      return;
  }
}

void Prover::end_clients() {
  callbacks_.end_clients(callbacks_.clients(), [this](const std::vector<mps::Terminated>&) { feed(mps::StepDone{}); });
}

// Servers are children of the daemon, not ours; the next client makes the daemon start a new one.
void Prover::end_servers() {
  ending_.clear();
  for (const int pid : callbacks_.servers()) {
    const auto ref = process_ref(pid);
    if (!ref) continue;
    auto process = Process::adopt(loop_, *ref, [this, pid](ExitNote) { server_gone(pid); });
    if (!process) continue;
    (void)(*process)->signal(SIGTERM);
    ending_.push_back(*std::move(process));
  }
  kill_timer_.start(ending_.empty() ? Duration{} : kServerPatience, [this] {
    if (ending_.empty()) return feed(mps::StepDone{});
    for (const auto& process : ending_) (void)process->signal(SIGKILL);
  });
}

void Prover::server_gone(pid_t pid) {
  std::erase_if(ending_, [pid](const auto& process) { return process->ref().pid == pid; });
  if (!ending_.empty()) return;
  kill_timer_.stop();
  feed(mps::StepDone{});
}

}  // namespace tranche::host
