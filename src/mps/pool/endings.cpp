#include "mps/pool/endings.h"

#include <utility>

#include "os/files/kept.h"
#include "os/log/log.h"

namespace tranche::host {
namespace {

mps::EndingProcesses all_of(const EndedProcesses& processes) {
  mps::EndingProcesses all;
  const auto add = [&all](const ProcessRef& ref, mps::StoppedFor what) {
    all.try_emplace({static_cast<std::uint32_t>(ref.pid), ref.start_ticks}, what);
  };
  for (const auto& ref : processes.clients) add(ref, mps::StoppedFor::kEnd);
  for (const auto& ref : processes.companions) add(ref, mps::StoppedFor::kContinue);
  return all;
}

bool is_stopped(const ProcessRef& ref) {
  const auto sight = look_at_process(ref.pid);
  return sight && sight->ref == ref && (sight->state == 'T' || sight->state == 't');
}

}  // namespace

Endings::Endings(Loop& loop, std::optional<Dir> root) : loop_(loop), root_(std::move(root)) {
  if (!root_) return;
  auto file = read_kept(*root_, mps::kEndingFile);
  lost_ = std::move(file.lost);
  const std::string text = file.text.value_or("");
  left_ = mps::parse_ending(text);
  if (lost_.empty() && mps::render_ending(left_) != text)
    lost_ = put_aside(*root_, mps::kEndingFile, "it has lines that are no process's");
  written_ = left_;
}

void Endings::begin(ClientEnding::Settings settings, const EndedProcesses& processes, ClientEnding::Done done) {
  const std::uint64_t id = ++last_;
  stopped_[id] = all_of(processes);
  keep();
  endings_[id] = std::make_unique<ClientEnding>(
      loop_, settings, processes, [this, id, done = std::move(done)](std::vector<mps::Terminated> outcomes) {
        const auto ended = endings_.extract(id);  // keeps it until this callback returns
        stopped_.erase(id);
        keep();
        done(std::move(outcomes));
      });
}

void Endings::finish_left(ClientEnding::Settings settings, ClientEnding::Done done) {
  EndedProcesses processes;
  for (const auto& [process, what] : std::exchange(left_, {})) {
    const ProcessRef ref{static_cast<pid_t>(process.first), process.second};
    if (!is_stopped(ref)) continue;
    (what == mps::StoppedFor::kEnd ? processes.clients : processes.companions).push_back(ref);
  }
  begin(settings, processes, std::move(done));
}

void Endings::keep() {
  if (!root_) return;
  mps::EndingProcesses all = left_;
  for (const auto& [id, some] : stopped_) all.insert(some.begin(), some.end());
  if (all == written_) return;
  const Status written = all.empty() ? root_->remove(mps::kEndingFile)
                                     : write_kept(*root_, mps::kEndingFile, mps::render_ending(all), 0600);
  written_ = std::move(all);
  if (!written)
    log::warning("ending.not_written",
                 {{"why", written.error()},
                  {"what", "if tranche mps is killed before these clients have ended, their processes stay stopped"}});
}

}  // namespace tranche::host
