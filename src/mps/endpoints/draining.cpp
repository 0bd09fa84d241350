#include "mps/endpoints/draining.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mps/endpoints/containers.h"
#include "os/clock/clock.h"
#include "os/log/log.h"

namespace tranche::agent {

void Draining::drain(const EndpointName& endpoint, const DrainOrder& order, Reply reply) {
  const auto begun = loop_.now();
  const host::CpuBudget looks(kLongLook);
  const bool fresh = order.own.empty() && !order.searched;  // not one that has waited for a search
  if (const auto rest = rests_.find(endpoint); rest != rests_.end()) {
    if (begun >= rest->second)
      rests_.erase(rest);
    else if (order.caller > 0 && fresh)
      return reply(error_reply(
          {Kind::kUnavailable,
           fmt::format(
               "reading the status of the container's processes took long at the last request; send the request again "
               "in {} ms",
               std::chrono::duration_cast<std::chrono::milliseconds>(rest->second - begun).count()),
           "drain", 0}));
  }
  std::vector<int> pids = callbacks_.clients(endpoint);
  Members members;
  // The caller may exit during a search, and another process may get its pid.
  const std::string own = fresh && order.caller > 0 ? container_of(order.caller) : order.own;
  if (order.caller > 0) {
    if (own.empty())
      return reply(error_reply({Kind::kDenied,
                                "the container of the calling process is not known; call from a container that has "
                                "this endpoint, and run tranche mps with hostPID: true and SYS_PTRACE",
                                "drain", 0}));
    members.emplace(own, order.caller);
  }
  // A client that cannot be inspected counts as the caller's: it is a client of the same grant.
  host::Ancestors ancestors;
  std::map<int, std::string> of;
  for (const int pid : pids) of[pid] = container_of(pid, ancestors).value_or(own);
  if (order.caller > 0) std::erase_if(pids, [&](int pid) { return of[pid] != own; });
  for (const int pid : pids)
    if (!of[pid].empty()) members.emplace(of[pid], pid);

  Terminated spared;
  std::vector<int> react;
  host::EndRequest request;
  const auto fates =
      order.spare && callbacks_.fates ? fates_of(pids, order.stop_signal) : std::vector<stopping::Fate>(pids.size());
  for (std::size_t i = 0; i < pids.size(); ++i) {
    const int pid = pids[i];
    const auto& fate = fates[i];
    if (fate.keeps_grace) {
      spared.push_back({.pid = pid, .outcome = mps::TerminateOutcome::kSpared, .note = fate.why});
      if (fate.reacts) react.push_back(pid);
    } else {
      request.clients.push_back(pid);
    }
  }
  const auto is_spared = [&spared](int pid) {
    return std::ranges::find(spared, pid, &mps::Terminated::pid) != spared.end();
  };
  // Before a search as well: the signal does not wait for that.
  const auto paused =
      order.searched || !order.pause ? order.paused : pause(endpoint, react, pids.size(), order.stop_signal);
  std::map<int, std::vector<int>> above;  // of each client to end, if it is known
  Members unsearched;
  std::set<std::string> known;
  const auto found =
      callbacks_.ancestors ? callbacks_.ancestors(request.clients) : std::vector<std::optional<std::vector<int>>>{};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& ancestors_of = found[i];
    if (!ancestors_of) continue;
    const int pid = request.clients[i];
    above[pid] = *ancestors_of;
    const int topmost = ancestors_of->empty() ? pid : ancestors_of->back();
    if (of[pid].empty()) continue;
    if (first_of(endpoint, of[pid], topmost)) {
      known.insert(of[pid]);
    } else {
      unsearched.emplace(of[pid], topmost);
    }
  }
  for (const auto& [container, member] : members)
    if (spared.empty() && !first_of(endpoint, container)) unsearched.emplace(container, member);
  for (const auto& container : known) unsearched.erase(container);
  if (order.caller > 0 && looks.spent()) rests_[endpoint] = begun + host::kRestAfterReads * looks.used();
  if (!unsearched.empty() && !order.searched) {
    DrainOrder next = order;
    next.own = own;
    next.paused = paused;
    std::vector<int> held = request.clients;
    for (const auto& [pid, ancestors_of] : above)
      std::ranges::copy_if(ancestors_of, std::back_inserter(held), [&](int each) { return !is_spared(each); });
    hold(endpoint, held, next);
    return search(endpoint, std::move(next), unsearched, std::move(reply));
  }

  std::set<int> companions;
  const auto hold = [&](int pid) {
    if (!is_spared(pid) && pid != ::getpid()) companions.insert(pid);
  };
  FirstProcesses first;
  for (const auto& [pid, ancestors_of] : above) {
    for (const int each : ancestors_of) hold(each);
    if (of[pid].empty() || first.contains(of[pid])) continue;
    if (const auto init = first_of(endpoint, of[pid], ancestors_of.empty() ? pid : ancestors_of.back())) {
      first.emplace(of[pid], *init);
      hold(init->pid);
    }
  }
  request.companions.assign(companions.begin(), companions.end());
  std::set<int> stay = companions;
  stay.insert(request.clients.begin(), request.clients.end());
  resume(order.stopped, stay);

  const auto neighbours = callbacks_.neighbours ? callbacks_.neighbours(endpoint) : 0;
  // A container may send any number of requests; the node's own requests are few.
  const auto suppressed =
      order.caller > 0 ? pace_.due(endpoint.grant, "drain", begun) : std::optional<std::uint64_t>(0);
  if (suppressed)
    log::info("drain.begun", {{"pool", endpoint.pool},
                              {"grant", endpoint.grant},
                              {"clients", request.clients.size()},
                              {"spared", spared.size()},
                              {"paused", paused ? paused->clients.size() : 0},
                              {"sparedWhy", spared.empty() ? std::string() : spared.front().note},
                              {"neighbours", neighbours},
                              {"why", order.reason},
                              {"suppressed", *suppressed}});
  const auto answer = [this, endpoint, begun, neighbours, spared, own, logged = suppressed.has_value(),
                       stopped = order.stopped, reply = std::move(reply)](const Terminated& ended) {
    resume(stopped, {});  // the pool may have no daemon by now, and then no client is ended
    const auto took = loop_.now() - begun;
    if (logged)
      log::info("drain.done",
                {{"pool", endpoint.pool},
                 {"grant", endpoint.grant},
                 {"ended", std::ranges::count(ended, mps::TerminateOutcome::kTerminated, &mps::Terminated::outcome)},
                 {"of", ended.size()},
                 {"spared", spared.size()},
                 {"tookMs", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()}});
    Terminated all = ended;
    all.insert(all.end(), spared.begin(), spared.end());
    reply(end_reply({all, neighbours, took, own.empty() ? std::string() : not_ended(endpoint, own, all)}));
  };
  const auto finish = [answer, paused](const Terminated& ended) {
    if (!paused || paused->idle) return answer(ended);
    paused->on_idle = [answer, ended] { answer(ended); };
  };
  if (request.clients.empty()) {
    if (spared.empty()) close(endpoint, first, members);
    return finish({});
  }
  callbacks_.terminate(endpoint.pool, request, [finish, weak = std::weak_ptr(alive_)](const Terminated& outcomes) {
    if (!weak.expired()) finish(outcomes);
  });
  if (spared.empty()) close(endpoint, first, members);
}

// Without neighbours, its end hurts no other client. `drained`: the number of clients of the order, out of all that
// connected through the endpoint.
std::shared_ptr<PauseOfDrain> Draining::pause(const EndpointName& endpoint, const std::vector<int>& clients,
                                              std::size_t drained, int stop_signal) {
  if (clients.empty() || !callbacks_.pause) return nullptr;
  const auto others = callbacks_.clients(endpoint).size() - drained;
  if (others + (callbacks_.neighbours ? callbacks_.neighbours(endpoint) : 0) == 0) return nullptr;
  auto paused = std::make_shared<PauseOfDrain>(PauseOfDrain{clients});
  std::vector<host::ProcessRef> processes;
  for (const int pid : clients)
    if (const auto ref = host::process_ref(pid)) processes.push_back(*ref);
  callbacks_.pause(endpoint, processes, stop_signal, [paused, weak = std::weak_ptr(alive_)] {
    paused->idle = true;
    if (paused->on_idle && !weak.expired()) std::exchange(paused->on_idle, {})();
  });
  return paused;
}

std::vector<stopping::Fate> Draining::fates_of(const std::vector<int>& pids, int stop_signal) {
  const auto now = loop_.now();
  std::erase_if(judged_, [now](const Judged& each) { return now - each.at >= kJudgedFor; });
  std::vector<stopping::Fate> fates(pids.size());
  std::vector<int> unknown;
  std::vector<std::size_t> places;
  std::vector<Result<host::ProcessRef>>
      refs;  // read first: a verdict must not apply to a later process with the same pid
  for (std::size_t i = 0; i < pids.size(); ++i) {
    auto ref = host::process_ref(pids[i]);
    const auto known = std::ranges::find_if(
        judged_, [&](const Judged& each) { return ref && each.client == *ref && each.stop_signal == stop_signal; });
    if (known != judged_.end()) {
      fates[i] = known->fate;
      continue;
    }
    unknown.push_back(pids[i]);
    places.push_back(i);
    refs.push_back(std::move(ref));
  }
  if (unknown.empty()) return fates;
  auto looked = callbacks_.fates(unknown, stop_signal);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    if (refs[i]) judged_.push_back({*refs[i], stop_signal, looked[i], now});
    fates[places[i]] = std::move(looked[i]);
  }
  return fates;
}

// Why the container still has clients; "" if it has none, or only clients that survive the stop signal.
std::string Draining::not_ended(const EndpointName& endpoint, const std::string& container,
                                const Terminated& all) const {
  std::vector<int> left;
  host::Ancestors ancestors;
  for (const auto& each : all)
    if (each.outcome == mps::TerminateOutcome::kRefused || each.outcome == mps::TerminateOutcome::kTimedOut)
      left.push_back(each.pid);
  for (const int pid : callbacks_.clients(endpoint))
    if (std::ranges::find(all, pid, &mps::Terminated::pid) == all.end() &&
        container_of(pid, ancestors).value_or(container) == container)
      left.push_back(pid);
  if (left.empty()) return {};
  return fmt::format(
      "CUDA processes of the container have not ended (pids on the node: {}); a signal to them now may end the CUDA "
      "programs of other containers on the GPU",
      fmt::join(left, ", "));
}

const Draining::Closed* Draining::find(const EndpointName& endpoint, const std::string& container) const {
  const auto found = closed_.find(endpoint);
  if (found == closed_.end()) return nullptr;
  const auto one = std::ranges::find(found->second, container, &Closed::container);
  return one == found->second.end() ? nullptr : &*one;
}

std::optional<host::ProcessRef> Draining::first_of(const EndpointName& endpoint, const std::string& container,
                                                   int topmost) const {
  auto first = first_of(endpoint, container);
  return first ? first : init_at(topmost);
}

std::optional<host::ProcessRef> Draining::first_of(const EndpointName& endpoint, const std::string& container) const {
  if (const auto* const known = find(endpoint, container)) return known->first->ref();
  const auto found = searched_.find(container);
  if (found == searched_.end() || host::process_ref(found->second.pid) != found->second) return std::nullopt;
  return found->second;
}

// Before a search, whose time grows with the processes of the node: the container's stop signal must not reach clients
// whose kernels run.
void Draining::hold(const EndpointName& endpoint, const std::vector<int>& pids, DrainOrder& order) {
  if (!callbacks_.hold) return;
  for (const int pid : pids)
    if (const auto ref = host::process_ref(pid); ref && pid != ::getpid()) order.stopped.push_back(*ref);
  callbacks_.hold(endpoint, order.stopped);
}

void Draining::resume(std::vector<host::ProcessRef> held, const std::set<int>& stay) {
  std::erase_if(held, [&](const host::ProcessRef& each) { return stay.contains(each.pid); });
  if (!held.empty()) callbacks_.resume(held);
}

void Draining::search(const EndpointName& endpoint, DrainOrder order, const Members& members, Reply reply) {
  auto& searching = searching_[endpoint];
  searching.requests.emplace_back(order, std::move(reply));
  if (searching.requests.size() > 1) return;
  searching.number = ++searches_;
  worker_->run([this, endpoint, number = searching.number, members, alive = std::weak_ptr(alive_), &loop = loop_] {
    FirstProcesses found;
    for (const auto& [container, member] : members)
      if (const auto first = oldest_of(container, member)) found.emplace(container, *first);
    loop.post([this, endpoint, number, found = std::move(found), alive] {
      if (!alive.expired()) searched(endpoint, number, found);
    });
  });
}

void Draining::searched(const EndpointName& endpoint, std::uint64_t number, const FirstProcesses& found) {
  const auto searching = searching_.find(endpoint);
  if (searching == searching_.end() || searching->second.number != number) return;
  auto requests = std::move(searching->second.requests);
  searching_.erase(searching);
  searched_ = found;
  requests.front().first.searched = true;
  for (const auto& [order, reply] : requests)
    drain(endpoint, order, reply);  // each of the others may start the next search
}

void Draining::close(const EndpointName& endpoint, const FirstProcesses& first, const Members& members) {
  for (const auto& [container, member] : members) {
    if (find(endpoint, container) != nullptr) continue;
    const auto known = first.find(container);
    const auto init = known != first.end() ? std::optional(known->second) : first_of(endpoint, container);
    if (init) close_one(endpoint, container, *init);  // absent: all of its processes have exited
  }
  keep(endpoint);
  callbacks_.on_change();
}

void Draining::close_one(const EndpointName& endpoint, const std::string& container, const host::ProcessRef& first) {
  auto watched = host::Process::adopt(
      loop_, first, [this, endpoint, container](const host::ExitNote&) { container_ended(endpoint, container); });
  // Without a watched end, this entry would refuse a successor to which the kernel gives the same namespace number.
  if (!watched) {
    if (watched.error().kind != Kind::kNotFound)
      log::warning("drain.unwatched", {{"pool", endpoint.pool}, {"grant", endpoint.grant}, {"why", watched.error()}});
    return;
  }
  auto& closed = closed_[endpoint];
  if (closed.size() == kMostClosed) closed.erase(closed.begin());
  closed.push_back({container, *std::move(watched)});
}

void Draining::recall(const EndpointName& endpoint, const std::vector<host::ProcessRef>& first) {
  for (const auto& ref : first)
    if (const auto container = container_of(ref.pid); !container.empty() && find(endpoint, container) == nullptr)
      close_one(endpoint, container, ref);
  if (!first.empty()) keep(endpoint);
}

void Draining::keep(const EndpointName& endpoint) {
  if (!callbacks_.keep) return;
  std::vector<host::ProcessRef> first;
  if (const auto found = closed_.find(endpoint); found != closed_.end())
    for (const auto& closed : found->second) first.push_back(closed.first->ref());
  if (const auto kept = callbacks_.keep(endpoint, first); !kept)
    log::warning("drain.not_kept", {{"pool", endpoint.pool},
                                    {"grant", endpoint.grant},
                                    {"why", kept.error()},
                                    {"effect", "a restart of tranche mps admits the drained container again"}});
}

// By value: the callback that holds the names goes with the process.
void Draining::container_ended(EndpointName endpoint, std::string container) {
  const auto found = closed_.find(endpoint);
  if (found == closed_.end()) return;
  std::erase_if(found->second, [&](const Closed& closed) { return closed.container == container; });
  if (found->second.empty()) closed_.erase(found);
  keep(endpoint);
  callbacks_.on_change();
}

std::string Draining::refuses(const EndpointName& endpoint, int pid) const {
  if (!closed(endpoint)) return {};
  host::Ancestors ancestors;
  const auto container = container_of(pid, ancestors);
  if (!container) return "its container is not known, and a container of this endpoint is being stopped";
  return find(endpoint, *container) == nullptr ? std::string() : "its container is being stopped";
}

void Draining::forget(const EndpointName& endpoint) {
  const auto clients = callbacks_.clients(endpoint);  // they are ended next
  if (auto searching = searching_.extract(endpoint); !searching.empty())
    for (const auto& [order, reply] : searching.mapped().requests) {
      resume(order.stopped, {clients.begin(), clients.end()});
      reply(error_reply({Kind::kNotFound, "the grant's endpoint was removed", "drain", 0}));
    }
  if (closed_.erase(endpoint) > 0) keep(endpoint);
  rests_.erase(endpoint);
  pace_.forget(endpoint.grant);
}

}  // namespace tranche::agent
