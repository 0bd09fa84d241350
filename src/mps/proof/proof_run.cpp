#include "mps/proof/proof_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <utility>

namespace tranche::host {
namespace {

constexpr std::size_t kLongestOutput = 64 << 10;
// Starting CUDA, creating a context, and the rest each have the deadline; the child exits if one takes too long.
constexpr int kStages = 2;

}  // namespace

ProofRun::ProofRun(Loop& loop, ProofPlan plan, std::function<void(const mps::ProofReading&)> done)
    : loop_(loop), plan_(std::move(plan)), done_(std::move(done)) {
  start_next();
}

void ProofRun::start_next() {
  output_.clear();
  Command command{.argv = plan_.program, .env = plan_.env, .kill_on_drop = true, .die_with_parent = true};
  for (const char* word : {"--json", "--seconds", "0", "--deadline"}) command.argv.push_back(word);
  command.argv.push_back(fmt::format("{:.3f}", std::chrono::duration<double>(plan_.deadline).count()));
  if (at_ < plan_.devices.size()) command.env["CUDA_VISIBLE_DEVICES"] = plan_.devices[at_];
  auto process = Process::start(
      loop_, command,
      [this](const std::string& line) {
        if (output_.size() < kLongestOutput) output_ += line + '\n';
      },
      [this](ExitNote note) { ended(note, false); });
  if (!process) {
    const mps::ProofReading reading{mps::ProofVerdict::kInconclusive,
                                    "the CUDA start could not be tried: " + to_string(process.error())};
    timer_.start(Duration{}, [this, reading] { finish(reading); });
    return;
  }
  process_ = *std::move(process);
  timer_.start(kStages * plan_.deadline, [this] { ended({.signalled = true, .code = SIGKILL}, true); });
}

void ProofRun::ended(const ExitNote& note, bool timed_out) {
  timer_.stop();
  process_.reset();  // kills it if it still runs
  const auto reading = mps::read_proof({.exit_code = note.signalled ? -1 : note.code,
                                        .timed_out = timed_out,
                                        .output = output_,
                                        .clients = plan_.clients});
  const bool more = ++at_ < plan_.devices.size();
  if (reading.verdict == mps::ProofVerdict::kPassed && more) return start_next();
  finish(reading);
}

void ProofRun::finish(const mps::ProofReading& reading) {
  timer_.stop();
  const auto done = std::exchange(done_, {});
  if (done) done(reading);
}

}  // namespace tranche::host
