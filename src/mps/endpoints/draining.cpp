#include "mps/endpoints/draining.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "mps/endpoints/containers.h"
#include "os/log/log.h"

namespace tranche::agent {

void Draining::drain(const EndpointName& endpoint, const DrainOrder& order, Reply reply) {
  const auto begun = loop_.now();
  std::vector<int> pids = callbacks_.clients(endpoint);
  Containers members;
  std::string own;
  if (order.caller > 0) {
    own = container_of(order.caller);
    if (own.empty())
      return reply(error_reply({Kind::kDenied,
                                "the container of the calling process is not known; call from a container that has "
                                "this endpoint, and run tranche mps with hostPID: true and SYS_PTRACE",
                                "drain", 0}));
    members.emplace(own, order.caller);
  }
  // A client beyond the limit of inspections counts as the caller's: it is a client of the same grant.
  host::Ancestors ancestors;
  std::map<int, std::string> of;
  for (const int pid : pids) of[pid] = container_of(pid, ancestors).value_or(own);
  if (order.caller > 0) std::erase_if(pids, [&](int pid) { return of[pid] != own; });
  for (const int pid : pids)
    if (!of[pid].empty()) members.emplace(of[pid], pid);

  Terminated spared;
  host::EndRequest request;
  const auto fates =
      order.spare && callbacks_.fates ? fates_of(pids, order.stop_signal) : std::vector<stopping::Fate>(pids.size());
  for (std::size_t i = 0; i < pids.size(); ++i) {
    const int pid = pids[i];
    const auto& fate = fates[i];
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
  Containers first;
  if (callbacks_.ancestors) {
    const auto all = callbacks_.ancestors(request.clients);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& above = all[i];
      if (!above) continue;
      const int pid = request.clients[i];
      first.emplace(of[pid], above->empty() ? pid : above->back());
      for (const int each : *above)
        if (!is_spared(each) && each != ::getpid()) companions.insert(each);
    }
  }
  request.companions.assign(companions.begin(), companions.end());

  const auto neighbours = callbacks_.neighbours ? callbacks_.neighbours(endpoint) : 0;
  // A container may send any number of requests; the node's own requests are few.
  const auto untold = order.caller > 0 ? pace_.due(endpoint.grant, "drain", begun) : std::optional<std::uint64_t>(0);
  if (untold)
    log::info("drain.begun", {{"pool", endpoint.pool},
                              {"grant", endpoint.grant},
                              {"clients", request.clients.size()},
                              {"spared", spared.size()},
                              {"neighbours", neighbours},
                              {"why", order.reason},
                              {"untold", *untold}});
  const auto finish = [this, endpoint, begun, neighbours, spared, own, tell = untold.has_value(),
                       reply = std::move(reply)](const Terminated& ended) {
    const auto took = loop_.now() - begun;
    if (tell)
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
  if (request.clients.empty()) {
    if (spared.empty()) close(endpoint, first, members);
    return finish({});
  }
  // Stopped first: the stop signal may be milliseconds away.
  callbacks_.terminate(endpoint.pool, request, [finish, weak = std::weak_ptr(alive_)](const Terminated& outcomes) {
    if (!weak.expired()) finish(outcomes);
  });
  if (spared.empty()) close(endpoint, first, members);
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

void Draining::close(const EndpointName& endpoint, const Containers& first, const Containers& members) {
  auto& closed = closed_[endpoint];
  for (const auto& [container, member] : members) {
    if (std::ranges::find(closed, container, &Closed::container) != closed.end()) continue;
    const auto known = first.find(container);
    const auto ref = known == first.end() ? Result<host::ProcessRef>(fail(Kind::kNotFound, "not known"))
                                          : host::process_ref(known->second);
    const auto init = ref ? std::optional(*ref) : oldest_of(container, member);
    if (!init) continue;  // all of its processes have exited
    auto watched = host::Process::adopt(
        loop_, *init, [this, endpoint, container](const host::ExitNote&) { container_ended(endpoint, container); });
    // Without a watched end, this entry would refuse a successor to which the kernel gives the same namespace number.
    if (watched) {
      if (closed.size() == kMostClosed) closed.erase(closed.begin());
      closed.push_back({container, *std::move(watched)});
    } else if (watched.error().kind != Kind::kNotFound) {
      log::warning("drain.unwatched", {{"pool", endpoint.pool}, {"grant", endpoint.grant}, {"why", watched.error()}});
    }
  }
  if (closed.empty()) closed_.erase(endpoint);
  callbacks_.on_change();
}

void Draining::container_ended(const EndpointName& endpoint, const std::string& container) {
  const auto found = closed_.find(endpoint);
  if (found == closed_.end()) return;
  std::erase_if(found->second, [&](const Closed& closed) { return closed.container == container; });
  if (found->second.empty()) closed_.erase(found);
  callbacks_.on_change();
}

std::string Draining::refuses(const EndpointName& endpoint, int pid) const {
  const auto found = closed_.find(endpoint);
  if (found == closed_.end()) return {};
  const bool refused = std::ranges::find(found->second, container_of(pid), &Closed::container) != found->second.end();
  return refused ? "its container is being stopped" : std::string();
}

void Draining::forget(const EndpointName& endpoint) {
  closed_.erase(endpoint);
  pace_.forget(endpoint.grant);
}

}  // namespace tranche::agent
