#include "mps/pool/pool_daemon.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace tranche::mps {
namespace {

constexpr Duration kServerPatience = std::chrono::seconds(2);  // from SIGTERM to SIGKILL
constexpr Duration kTurnPatience = std::chrono::seconds(3);    // for clients that are connecting; then without a turn

constexpr std::size_t kLongestOutput = 64 << 10;
// Starting CUDA, creating a context, and the rest each have the deadline; the child exits if one takes too long.
constexpr int kStages = 2;

}  // namespace

Prover::Prover(os::Loop& loop, ProofSettings settings, PoolDaemon& pool)
    : loop_(loop), settings_(settings), pool_(pool), ending_(loop, kServerPatience, [this] { feed(StepDone{}); }) {}

void Prover::feed(ProofEvent event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  const Proof before = state_;
  while (!events_.empty()) {
    const ProofEvent next = std::move(events_.front());
    events_.pop_front();
    for (const auto& action : step(state_, next, loop_.now(), settings_))
      std::visit([this](const auto& a) { act(a); }, action);
  }
  stepping_ = false;
  arm_timer();
  const bool same = before.state == state_.state && before.reason == state_.reason &&
                    before.trusted == state_.trusted && before.step == state_.step && before.running == state_.running;
  if (!same) pool_.proof_changed(before);
}

void Prover::set_every(Duration every) {
  if (every == settings_.every) return;
  settings_.every = every;
  if (state_.serves) feed(PoolServes{});
}

void Prover::arm_timer() {
  timer_.stop();
  const auto at = wake_at(state_, settings_);
  if (!at) return;
  timer_.start(std::max(Duration{}, *at - loop_.now()), [this] { feed(ProofTick{}); });
}

void Prover::act(const StartProof&) {
  turn_timer_.start(kTurnPatience, [this] { start(); });
  turn_.reset();
  turn_ = pool_.settings_.admission->take_turn([this] {
    if (!turn_timer_.running()) return;  // it started without a turn
    turn_timer_.stop();
    start();
  });
}

void Prover::start() {
  device_ = 0;
  const auto listed = pool_.clients_of_servers();
  std::erase_if(own_, [&](int pid) { return std::ranges::find(listed, pid) == listed.end(); });
  clients_ = clients().size();
  start_next();
}

void Prover::start_next() {
  const auto& devices = pool_.settings_.devices;
  output_.clear();
  os::Command command{
      .argv = pool_.settings_.proof_program, .env = pool_.environment_, .kill_on_drop = true, .die_with_parent = true};
  for (const char* word : {"--json", "--seconds", "0", "--deadline"}) command.argv.push_back(word);
  command.argv.push_back(fmt::format("{:.3f}", std::chrono::duration<double>(settings_.deadline).count()));
  if (device_ < devices.size()) command.env["CUDA_VISIBLE_DEVICES"] = devices[device_];
  auto process = os::Process::start(
      loop_, command,
      [this](const std::string& line) {
        if (output_.size() < kLongestOutput) output_ += line + '\n';
      },
      [this](os::ExitNote note) { ended(note, false); });
  if (!process) {
    const ProofReading reading{ProofVerdict::kInconclusive,
                               "the CUDA start could not be tried: " + to_string(process.error())};
    deadline_.start(Duration{}, [this, reading] { finish(reading); });
    return;
  }
  process_ = *std::move(process);
  own_.insert(pid());
  deadline_.start(kStages * settings_.deadline, [this] { ended({.signalled = true, .code = SIGKILL}, true); });
}

void Prover::ended(const os::ExitNote& note, bool timed_out) {
  deadline_.stop();
  process_.reset();  // kills it if it still runs
  const auto reading = read_proof(
      {.exit_code = note.signalled ? -1 : note.code, .timed_out = timed_out, .output = output_, .clients = clients_});
  const bool more = ++device_ < pool_.settings_.devices.size();
  if (reading.verdict == ProofVerdict::kPassed && more) return start_next();
  finish(reading);
}

void Prover::finish(const ProofReading& reading) {
  turn_.reset();
  feed(ProofEnded{reading.verdict, reading.reason, !clients().empty(), !pool_.servers().empty()});
}

std::vector<int> Prover::clients() const {
  auto pids = pool_.clients_of_servers();
  std::erase_if(pids, [this](int pid) { return own_.contains(pid); });
  return pids;
}

void Prover::act(const CancelProof&) {
  turn_timer_.stop();
  deadline_.stop();
  process_.reset();
  turn_.reset();
}

void Prover::act(const EndStep& action) {
  switch (action.step) {
    case Step::kClients:
      return pool_.end_clients(clients(), [this](const auto&) { feed(StepDone{}); });
    case Step::kServers:
      return end_servers();
    case Step::kDaemon:
      soon_.start(Duration{}, [this, why = action.why] {
        pool_.feed(Replace{"new CUDA programs do not start, and ending its clients and servers did not help: " + why});
      });
      return;
    case Step::kNone:
      return;
  }
}

// Servers are children of the daemon, not ours; the next client makes the daemon start a new one.
void Prover::end_servers() {
  for (const int pid : pool_.servers())
    if (const auto ref = os::process_ref(pid)) ending_.watch(*ref, SIGTERM);
  if (ending_.none_left()) soon_.start(Duration{}, [this] { feed(StepDone{}); });
}

}  // namespace tranche::mps
