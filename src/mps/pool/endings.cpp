#include "mps/pool/endings.h"

#include <algorithm>
#include <utility>

#include "os/files/kept.h"
#include "os/log/log.h"

namespace tranche::host {
namespace {

mps::EndingProcesses all_of(const std::vector<ProcessRef>& clients) {
  mps::EndingProcesses all;
  for (const auto& ref : clients) all.emplace(static_cast<std::uint32_t>(ref.pid), ref.start_ticks);
  return all;
}

bool has_all_of(const std::vector<ProcessRef>& ending, const std::vector<ProcessRef>& more) {
  const auto is_ending = [&](const ProcessRef& ref) { return std::ranges::find(ending, ref) != ending.end(); };
  return !more.empty() && std::ranges::all_of(more, is_ending);
}

bool runs(const ProcessRef& ref) {
  const auto sight = look_at_process(ref.pid);
  return sight && sight->ref == ref && sight->state != 'Z' && sight->state != 'X';
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

void Endings::begin(ClientEnding::Settings settings, const std::vector<ProcessRef>& clients, ClientEnding::Done done) {
  for (auto& [id, ending] : endings_)
    if (has_all_of(ending.clients, clients)) return ending.done.push_back(std::move(done));
  const std::uint64_t id = ++last_;
  stopped_[id] = all_of(clients);
  keep();
  if (settings.killed_with) settings.killed_with = recorded(id, std::move(settings.killed_with));
  Ending& ending = endings_[id];
  ending.clients = clients;
  ending.done.push_back(std::move(done));
  ending.ending = std::make_unique<ClientEnding>(
      loop_, std::move(settings), clients, [this, id](const std::vector<mps::Terminated>& outcomes) {
        const auto ended = endings_.extract(id);  // keeps it until this callback returns
        stopped_.erase(id);
        keep();
        for (const auto& each : ended.mapped().done) each(outcomes);
      });
}

// Those that come meanwhile are recorded before they are stopped as well.
KilledWith Endings::recorded(std::uint64_t id, KilledWith killed_with) {
  return [this, id, killed_with = std::move(killed_with)](const std::vector<ProcessRef>& processes) {
    auto more = killed_with(processes);
    if (more) stopped_[id].merge(all_of(*more));
    keep();
    return more;
  };
}

void Endings::finish_left(ClientEnding::Settings settings, ClientEnding::Done done) {
  std::vector<ProcessRef> clients;
  for (const auto& [pid, ticks] : std::exchange(left_, {}))
    if (const ProcessRef ref{static_cast<pid_t>(pid), ticks}; runs(ref)) clients.push_back(ref);
  if (const auto more = settings.killed_with ? settings.killed_with(clients) : std::nullopt)
    clients.insert(clients.end(), more->begin(), more->end());
  begin(std::move(settings), clients, std::move(done));
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
