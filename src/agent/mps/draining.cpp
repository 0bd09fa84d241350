#include "agent/mps/draining.h"

#include <unistd.h>

#include <algorithm>

#include "agent/mps/containers.h"
#include "host/log/log.h"

namespace tranche::agent {
namespace {

constexpr Duration kGrace = std::chrono::milliseconds(200);  // for an answer that comes with the deadline

Terminated all_too_late(const std::vector<int>& pids) {
  Terminated outcomes;
  for (const int pid : pids) outcomes.push_back({pid, mps::TerminateOutcome::kTimedOut, "no answer in time"});
  return outcomes;
}

}  // namespace

Draining::~Draining() {
  for (const auto& [door, run] : runs_) loop_.cancel(run.timer);
}

std::set<std::string> Draining::containers_of(const DoorName& door, int caller) const {
  // Processes in our own mount namespace are in no container: closing "theirs" would close the door for the node.
  const std::string ours = container_of(::getpid());
  std::set<std::string> containers;
  for (const int pid : caller > 0 ? std::vector<int>{caller} : world_.clients(door)) {
    const auto container = container_of(pid);
    if (!container.empty() && container != ours) containers.insert(container);
  }
  return containers;
}

void Draining::drain(const DoorName& door, int caller, const std::string& reason, Duration deadline, Reply reply) {
  const auto containers = containers_of(door, caller);
  const auto waiter = next_++;
  waiters_[waiter] = std::move(reply);
  const auto closed_before = drains_.closed(door);
  const bool begun = drains_.begin(door, containers, waiter, loop_.now());
  for (const auto& container : containers) {
    if (!closed_before.contains(container)) watch(door, container);
  }
  world_.on_change();
  if (!begun) return;

  std::vector<int> pids = world_.clients(door);
  if (!containers.empty()) {
    std::erase_if(pids, [&](int pid) { return !containers.contains(container_of(pid)); });
  }
  log::info("drain.begun", {{"pool", door.pool}, {"grant", door.grant}, {"clients", pids.size()}, {"why", reason}});
  const auto number = waiter;
  runs_[door] = {number, 0};
  if (pids.empty()) return finish(door, number, {});
  runs_[door].timer =
      loop_.after(deadline + kGrace, [this, door, number, pids] { finish(door, number, all_too_late(pids)); });
  world_.terminate(door.pool, pids, deadline,
                   [this, door, number, weak = std::weak_ptr(alive_)](const Terminated& outcomes) {
                     if (!weak.expired()) finish(door, number, outcomes);
                   });
}

void Draining::finish(const DoorName& door, std::uint64_t run, const Terminated& outcomes) {
  const auto found = runs_.find(door);
  if (found == runs_.end() || found->second.number != run) return;  // answered by the deadline before
  loop_.cancel(found->second.timer);
  runs_.erase(found);
  const auto ended = drains_.end(door);
  const auto took = loop_.now() - ended.since;
  log::info(
      "drain.done",
      {{"pool", door.pool},
       {"grant", door.grant},
       {"terminated", std::ranges::count(outcomes, mps::TerminateOutcome::kTerminated, &mps::Terminated::outcome)},
       {"of", outcomes.size()},
       {"tookMs", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()}});
  for (const auto waiter : ended.waiters) {
    const auto reply = std::move(waiters_.at(waiter));
    waiters_.erase(waiter);
    reply(terminated_reply(outcomes, took));
  }
}

void Draining::watch(const DoorName& door, const std::string& container) {
  const auto ended = [this, door, container] {
    drains_.container_ended(door, container);
    inits_.erase({door, container});
    world_.on_change();
  };
  const auto init = oldest_of(container);
  auto watched = init ? host::Process::adopt(loop_, *init, [ended](const host::ExitNote&) { ended(); })
                      : Result<std::unique_ptr<host::Process>>(fail(Kind::kNotFound, "no process of it is left"));
  if (watched) {
    inits_[{door, container}] = *std::move(watched);
    return;
  }
  if (watched.error().kind != Kind::kNotFound)
    log::warning("drain.unwatched", {{"pool", door.pool}, {"grant", door.grant}, {"why", watched.error()}});
  // Closed without an end would keep a successor out if the kernel gave it the same namespace number.
  drains_.container_ended(door, container);
}

std::string Draining::refuses(const DoorName& door, int pid) const {
  if (drains_.closed(door).empty()) return {};
  return drains_.is_closed(door, container_of(pid)) ? "its container is being stopped" : std::string();
}

void Draining::forget(const DoorName& door) {
  drains_.forget(door);
  std::erase_if(inits_, [&](const auto& entry) { return entry.first.first == door; });
}

}  // namespace tranche::agent
