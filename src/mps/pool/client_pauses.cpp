#include "mps/pool/client_pauses.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "os/clock/clock.h"
#include "os/process/threads.h"

namespace tranche::host {
namespace {

// No event reports a pending signal of another process.
constexpr Duration kLookEvery = std::chrono::milliseconds(20);
// Of processor time for one owner, after which its further clients wait for the next look: a usual read takes 0.04 ms.
constexpr Duration kLongestLook = std::chrono::milliseconds(2);

}  // namespace

void ClientPauses::begin(const PauseRequest& request, std::function<void()> on_idle) {
  const auto idle_at = loop_.now() + request.patience;
  const auto until = idle_at + kSignalPatience;
  const int stop_signal = request.signal == 0 ? SIGTERM : request.signal;
  const auto known = paused_.size();
  for (const auto& ref : request.clients) {
    if (ref.pid == ::getpid()) continue;
    const auto before = std::ranges::find(paused_, ref, &Paused::ref);
    if (before == paused_.end()) {
      paused_.push_back(
          {.ref = ref, .owner = request.owner, .signal = stop_signal, .idle_at = idle_at, .until = until});
    } else {
      before->signal = stop_signal;
      // A process that is held for a search has a patience of minutes.
      before->idle_at = std::min(before->idle_at, idle_at);
      before->until = until;
    }
  }
  if (paused_.size() > known) on_change_();
  for (auto& each : paused_) {
    if (each.process || each.exited) continue;
    auto process = Process::adopt(loop_, each.ref, [this, ref = each.ref](const ExitNote&) {
      const auto gone = std::ranges::find(paused_, ref, &Paused::ref);
      if (gone == paused_.end()) return;
      gone->exited = true;
      arm();
    });
    each.exited = !process || !(*process)->signal(SIGSTOP);  // nothing can be waited for
    if (process) each.process = *std::move(process);
  }
  if (on_idle) waits_.push_back({request.clients, std::move(on_idle)});
  arm();
}

void ClientPauses::leave(const std::vector<ProcessRef>& processes) {
  const auto left = std::erase_if(
      paused_, [&](const Paused& each) { return std::ranges::find(processes, each.ref) != processes.end(); });
  if (left == 0) return;
  on_change_();
  arm();
}

void ClientPauses::resume(const std::vector<ProcessRef>& processes) {
  for (const auto& each : paused_)
    if (each.process && std::ranges::find(processes, each.ref) != processes.end()) (void)each.process->signal(SIGCONT);
  leave(processes);
}

std::vector<ProcessRef> ClientPauses::clients() const {
  std::vector<ProcessRef> all;
  for (const auto& each : paused_)
    if (!each.exited) all.push_back(each.ref);
  return all;
}

bool ClientPauses::is_busy(const ProcessRef& client) const {
  const auto found = std::ranges::find(paused_, client, &Paused::ref);
  return found != paused_.end() && !found->exited && loop_.now() < found->idle_at;
}

MonoTime ClientPauses::next_look(const std::string& owner) const {
  const auto found = next_looks_.find(owner);
  return found == next_looks_.end() ? MonoTime{} : found->second;
}

// A tenant chooses what a read costs, and it can ask for pauses without end.
void ClientPauses::look() {
  const auto now = loop_.now();
  std::vector<Paused*> due;
  for (auto& each : paused_)
    if (!each.exited && now >= each.idle_at && now < each.until && now >= next_look(each.owner)) due.push_back(&each);
  std::ranges::stable_sort(due, {}, &Paused::looked_at);
  std::map<std::string, Duration> used;
  for (auto* const each : due) {
    auto& of_owner = used[each->owner];
    if (of_owner >= kLongestLook) continue;
    const CpuBudget time(kLongestLook);
    each->pending = is_pending(each->ref.pid, each->signal);
    each->looked_at = now;
    of_owner += time.used();
  }
  for (const auto& [owner, time] : used) next_looks_[owner] = now + std::max(kLookEvery, kRestAfterReads * time);
}

void ClientPauses::turn() {
  look();
  const auto now = loop_.now();
  std::vector<Paused> settled;
  for (auto each = paused_.begin(); each != paused_.end();) {
    if (each->exited || (now >= each->idle_at && (each->pending || now >= each->until))) {
      settled.push_back(std::move(*each));
      each = paused_.erase(each);
    } else {
      ++each;
    }
  }
  for (const auto& each : settled)
    if (each.process && !each.exited) (void)each.process->signal(SIGCONT);
  std::erase_if(next_looks_, [&](const auto& look) { return now >= look.second + kSignalPatience; });
  if (!settled.empty()) on_change_();
  std::vector<std::function<void()>> idle;
  std::erase_if(waits_, [&](Wait& wait) {
    if (std::ranges::any_of(wait.clients, [this](const auto& client) { return is_busy(client); })) return false;
    idle.push_back(std::move(wait.on_idle));
    return true;
  });
  arm();
  for (const auto& on_idle : idle) on_idle();  // may destroy this object
}

void ClientPauses::arm() {
  const auto now = loop_.now();
  std::optional<Duration> next;
  const auto within = [&next](Duration delay) { next = std::max(Duration{}, next ? std::min(*next, delay) : delay); };
  for (const auto& each : paused_) {
    const auto look_at = each.exited ? now : std::min(each.until, std::max(each.idle_at, next_look(each.owner)));
    within(look_at - now);
  }
  for (const auto& wait : waits_)
    if (std::ranges::none_of(wait.clients, [this](const auto& client) { return is_busy(client); })) within(Duration{});
  if (!next) return timer_.stop();
  timer_.start(*next, [this] { turn(); });
}

}  // namespace tranche::host
