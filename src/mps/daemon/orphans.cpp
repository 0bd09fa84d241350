#include "mps/daemon/orphans.h"

#include <signal.h>

#include <utility>

namespace tranche::host {

void Orphans::remember(pid_t server) {
  if (known_.contains(server)) return;
  if (const auto ref = process_ref(server)) known_.emplace(server, *ref);
}

void Orphans::daemon_ended() {
  for (const auto& [pid, ref] : std::exchange(known_, {})) {
    auto process = Process::adopt(loop_, ref, [this, pid = pid](ExitNote) { ended(pid); });
    if (process) watched_[pid] = *std::move(process);  // an error: it has exited
  }
  if (watched_.empty() || timer_.running()) return;
  timer_.start(patience_, [this] {
    for (const auto& [pid, process] : watched_) (void)process->signal(SIGKILL);
  });
}

void Orphans::ended(pid_t pid) {
  watched_.erase(pid);
  if (!watched_.empty()) return;
  timer_.stop();
  on_gone_();
}

}  // namespace tranche::host
