#include "agent/mps/draining.h"

#include <unistd.h>

#include <algorithm>

#include "agent/mps/containers.h"
#include "host/log/log.h"

namespace tranche::agent {

std::set<std::string> Draining::containers_of(const DoorName& door, int caller) const {
  // Processes in our own mount namespace are in no container: closing "theirs" would close the endpoint for the node.
  const std::string ours = container_of(::getpid());
  std::set<std::string> containers;
  for (const int pid : caller > 0 ? std::vector<int>{caller} : callbacks_.clients(door)) {
    const auto container = container_of(pid);
    if (!container.empty() && container != ours) containers.insert(container);
  }
  return containers;
}

void Draining::drain(const DoorName& door, const DrainOrder& order, Reply reply) {
  const auto begun = loop_.now();
  const auto containers = containers_of(door, order.caller);
  std::vector<int> pids = callbacks_.clients(door);
  if (!containers.empty()) std::erase_if(pids, [&](int pid) { return !containers.contains(container_of(pid)); });

  Terminated spared;
  host::EndRequest request;
  for (const int pid : pids) {
    const auto fate = order.spare && callbacks_.fate ? callbacks_.fate(pid, order.stop_signal) : stopping::Fate{};
    if (fate.keeps_grace) {
      spared.push_back({.pid = pid, .outcome = mps::TerminateOutcome::kSpared, .note = fate.why});
    } else {
      request.clients.push_back(pid);
    }
  }
  const auto is_spared = [&spared](int pid) {
    return std::ranges::find(spared, pid, &mps::Terminated::pid) != spared.end();
  };
  std::set<int> companions;
  std::map<std::string, int> first;
  if (callbacks_.ancestors) {
    for (const int pid : request.clients) {
      const auto above = callbacks_.ancestors(pid);
      first.emplace(container_of(pid), above.empty() ? pid : above.back());
      for (const int each : above)
        if (!is_spared(each) && each != ::getpid()) companions.insert(each);
    }
  }
  request.companions.assign(companions.begin(), companions.end());

  const auto neighbours = callbacks_.neighbours ? callbacks_.neighbours(door) : 0;
  log::info("drain.begun", {{"pool", door.pool},
                            {"grant", door.grant},
                            {"clients", request.clients.size()},
                            {"spared", spared.size()},
                            {"neighbours", neighbours},
                            {"why", order.reason}});
  const auto finish = [this, door, begun, neighbours, spared, reply = std::move(reply)](const Terminated& ended) {
    const auto took = loop_.now() - begun;
    log::info("drain.done",
              {{"pool", door.pool},
               {"grant", door.grant},
               {"ended", std::ranges::count(ended, mps::TerminateOutcome::kTerminated, &mps::Terminated::outcome)},
               {"of", ended.size()},
               {"spared", spared.size()},
               {"tookMs", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()}});
    Terminated all = ended;
    all.insert(all.end(), spared.begin(), spared.end());
    reply(terminated_reply(all, took, neighbours));
  };
  if (request.clients.empty()) {
    if (spared.empty()) close(door, containers, first);
    return finish({});
  }
  // Stopped first: the stop signal may be milliseconds away.
  callbacks_.terminate(door.pool, request, [finish, weak = std::weak_ptr(alive_)](const Terminated& outcomes) {
    if (!weak.expired()) finish(outcomes);
  });
  if (spared.empty()) close(door, containers, first);
}

void Draining::close(const DoorName& door, const std::set<std::string>& containers,
                     const std::map<std::string, int>& first) {
  for (const auto& container : containers) {
    if (const auto found = closed_.find(door); found != closed_.end() && found->second.contains(container)) continue;
    const auto known = first.find(container);
    const auto ref = known == first.end() ? Result<host::ProcessRef>(fail(Kind::kNotFound, "not known"))
                                          : host::process_ref(known->second);
    const auto init = ref ? std::optional(*ref) : oldest_of(container);  // which looks through all of /proc
    if (!init) continue;                                                 // no process of it is left
    auto watched = host::Process::adopt(
        loop_, *init, [this, door, container](const host::ExitNote&) { container_ended(door, container); });
    // Closed without an end would keep a successor out if the kernel gave it the same namespace number.
    if (watched) {
      closed_[door].emplace(container, *std::move(watched));
    } else if (watched.error().kind != Kind::kNotFound) {
      log::warning("drain.unwatched", {{"pool", door.pool}, {"grant", door.grant}, {"why", watched.error()}});
    }
  }
  callbacks_.on_change();
}

void Draining::container_ended(const DoorName& door, const std::string& container) {
  const auto found = closed_.find(door);
  if (found == closed_.end()) return;
  found->second.erase(container);
  if (found->second.empty()) closed_.erase(found);
  callbacks_.on_change();
}

std::string Draining::refuses(const DoorName& door, int pid) const {
  const auto found = closed_.find(door);
  if (found == closed_.end()) return {};
  return found->second.contains(container_of(pid)) ? "its container is being stopped" : std::string();
}

void Draining::forget(const DoorName& door) {
  closed_.erase(door);
}

}  // namespace tranche::agent
