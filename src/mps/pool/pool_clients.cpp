// The pool's clients: which processes they are, how they are ended, and the limits of those that are accepted next.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mps/pool/pool_daemon.h"
#include "os/clock/clock.h"

namespace tranche::mps {
void ListedClients::heard(std::uint64_t asked, const std::vector<int>& pids) {
  ListedProcesses now;
  for (const int pid : pids) {
    if (now.contains(pid)) continue;
    if (const auto before = known_.find(pid); before != known_.end()) {
      now.insert(*before);
      continue;
    }
    const auto ref = look_(pid);
    if (ref && ref->start_ticks > asked) continue;  // the next list decides
    now.emplace(pid, ref);
  }
  known_ = std::move(now);
}

void ListedClients::ended(int pid) {
  known_.insert_or_assign(pid, std::nullopt);
}

std::optional<os::ProcessRef> ListedClients::find(int pid) const {
  const auto found = known_.find(pid);
  const auto listed = found == known_.end() ? std::nullopt : found->second;
  return listed && look_(pid) == listed ? listed : std::nullopt;
}

void PoolDaemon::heard_servers(std::uint64_t asked, const std::vector<ServerSeen>& servers) {
  const auto pids = client_pids(servers);
  listed_.heard(asked, pids);
  ListedProcesses clients;
  for (const int pid : pids) clients.emplace(pid, listed_.find(pid));
  settings_.admission->servers_listed(asked, server_pids(servers), clients);
}

// The relay holds its clients' processes: each pid that it knows is alive.
std::optional<os::ProcessRef> PoolDaemon::client(int pid) const {
  return settings_.admission->grant_of(pid) != nullptr ? os::process_ref(pid) : listed_.find(pid);
}

std::vector<int> PoolDaemon::clients() const {
  auto pids = settings_.admission->relay_clients().value_or(std::vector<int>{});
  const auto listed = clients_of_servers();
  pids.insert(pids.end(), listed.begin(), listed.end());
  return pids;
}

// Without neighbours, a kill hurts no other client. The pool's own CUDA start counts as a neighbour: it tests whether
// new clients can start.
bool PoolDaemon::are_alone(const std::vector<os::ProcessRef>& processes) const {
  if (!settings_.admission->relay_clients() || proof_pid() != 0) return false;
  return std::ranges::all_of(
      clients(), [&](int pid) { return std::ranges::find(processes, pid, &os::ProcessRef::pid) != processes.end(); });
}

// The servers' lists are up to a few seconds old: for pids that are not in them, the daemon is queried.
void PoolDaemon::end_clients(const std::vector<int>& pids, Endings::Done done) {
  std::vector<Target> targets;
  for (const int pid : pids) {
    if (std::ranges::find(targets, pid, &Target::pid) != targets.end()) continue;
    Target target{.pid = pid};
    if (const auto ref = client(pid)) {
      target.processes = {*ref};
    } else if (!listed_.has(pid)) {
      target.unlisted = os::process_ref(pid);
    }
    targets.push_back(std::move(target));
  }
  if (std::ranges::none_of(targets, [](const Target& each) { return each.unlisted.has_value(); }))
    return end_targets(std::move(targets), std::move(done));
  const auto query = side_queries_.emplace(side_queries_.end());
  ask(*query, {{state_.desired}, servers()},
      [=, this, asked = os::boot_ticks(), done = std::move(done)](const Result<Answered>& answered) mutable {
        side_queries_.erase(query);
        if (answered) heard_servers(asked, answered->servers);
        for (auto& target : targets) {
          if (!target.unlisted) continue;
          target.otherwise = "the servers of the pool do not know this process";
          if (client(target.pid) == target.unlisted) target.processes = {*target.unlisted};
        }
        end_targets(std::move(targets), std::move(done));
      });
}

void PoolDaemon::end_targets(std::vector<Target> targets, Endings::Done done) {
  std::vector<int> pids;
  for (const auto& target : targets) pids.push_back(target.pid);
  std::set<int> own{daemon_pid(), proof_pid()};
  for (const int server : servers()) own.insert(server);
  settings_.admission->find_heirs(
      pids, std::move(own), [=, this, alive = std::weak_ptr(alive_), targets = std::move(targets)](const Heirs& heirs) {
        if (alive.expired()) return;
        auto all = targets;
        for (auto& target : all)
          if (const auto found = heirs.find(target.pid); found != heirs.end())
            target.processes.insert(target.processes.end(), found->second.begin(), found->second.end());
        end_processes(std::move(all), done);
      });
}

void PoolDaemon::end_processes(std::vector<Target> targets, Endings::Done done) {
  std::vector<os::ProcessRef> clients;
  for (const auto& target : targets)
    for (const auto& process : target.processes)
      if (std::ranges::find(clients, process) == clients.end()) clients.push_back(process);
  const auto more = settings_.killed_with ? settings_.killed_with(clients) : std::nullopt;
  const auto known = this->clients();
  const auto is_here = [&](const auto& ref) { return std::ranges::find(known, ref.pid) != known.end(); };
  const bool here = !more || std::ranges::all_of(*more, is_here);
  if (more) clients.insert(clients.end(), more->begin(), more->end());
  settings_.endings->begin({.patience = here && are_alone(clients) ? Duration{} : stop_patience_,
                            .killed_with = more ? settings_.killed_with : KilledWith(),
                            .patience_with_those = stop_patience_},
                           clients,
                           [this, alive = std::weak_ptr(alive_), targets = std::move(targets),
                            done = std::move(done)](const std::vector<Terminated>& outcomes) {
                             if (alive.expired()) return;
                             look();  // checks that they have left MPS
                             std::vector<Terminated> all;
                             for (const auto& target : targets) all.push_back(target.outcome_in(outcomes));
                             done(all);
                           });
}

// Of a client that has exited: that of the first of its heirs that was not terminated, or of any.
Terminated PoolDaemon::Target::outcome_in(const std::vector<Terminated>& outcomes) const {
  Terminated own{pid, TerminateOutcome::kNotAClient, otherwise};
  for (const auto& outcome : outcomes) {
    if (outcome.pid == pid) return outcome;
    if (std::ranges::find(processes, outcome.pid, &os::ProcessRef::pid) == processes.end()) continue;
    const auto note =
        fmt::format("the client had exited; process {}, which kept its connection: {}", outcome.pid, outcome.note);
    own = {pid, outcome.outcome, note};
    if (outcome.outcome != TerminateOutcome::kTerminated) break;
  }
  return own;
}

// --- the limits that the daemon and its servers hold for the clients that they accept next ---------------------------

// Each change is set and read back in one control session, before a relay admits the next grant's client
// (docs/internals/mps-contract.md, "A grant's own limits").

bool PoolDaemon::holds(const DaemonLimits& limits) const {
  return !state_.turn_problem && limits_to_set(state_) == limits;
}

void PoolDaemon::set_next_limits(const DaemonLimits& limits, Done done) {
  if (state_.state != State::kServing)
    return done(fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", settings_.id));
  if (next_limits_) return done(fail(Kind::kUnavailable, "the limits of a different grant came first", settings_.id));
  if (holds(limits)) return done({});
  next_limits_ = std::make_unique<LimitsChange>(limits, std::move(done));
  ask(next_limits_->question, {{limits, /*set=*/true}, servers()},
      [this](const Result<Answered>& answered) { next_limits_set(answered); });
}

void PoolDaemon::next_limits_set(const Result<Answered>& answered) {
  const auto was = std::move(next_limits_);
  const Status set = answered ? check_held(was->limits, *answered) : std::unexpected(answered.error());
  if (set)
    feed(AdmissionLimitsSet{was->limits, answered->defaults});
  else
    feed(AdmissionLimitsUnknown{to_string(set.error())});
  was->done(set);
}

// The daemon does not serve any more.
void PoolDaemon::abandon_next_limits() {
  if (!next_limits_) return;
  const auto was = std::move(next_limits_);
  feed(AdmissionLimitsUnknown{""});
  was->done(fail(Kind::kUnavailable, "the pool does not serve", settings_.id));
}

}  // namespace tranche::mps
