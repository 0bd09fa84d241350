// The pool's clients: which processes they are, how they are ended, and the limits of those that are accepted next.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "mps/pool/pool_daemon.h"
#include "os/clock/clock.h"
#include "os/log/log.h"

namespace tranche::mps {
namespace {

// Of a client that has exited: the first of its heirs that was not terminated, or any.
Terminated outcome_of(int pid, const std::vector<os::ProcessRef>& heirs, const std::vector<Terminated>& outcomes) {
  Terminated own{pid, TerminateOutcome::kNotAClient, "the process has exited"};
  for (const auto& outcome : outcomes) {
    if (std::ranges::find(heirs, outcome.pid, &os::ProcessRef::pid) == heirs.end()) continue;
    own = outcome;
    own.pid = pid;
    own.note =
        fmt::format("the client had exited; process {}, which kept its connection: {}", outcome.pid, outcome.note);
    if (outcome.outcome != TerminateOutcome::kTerminated) break;
  }
  return own;
}

}  // namespace

void ListedClients::heard(std::uint64_t asked, const std::vector<int>& pids) {
  std::map<int, std::optional<os::ProcessRef>> now;
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

std::vector<int> server_pids(const std::vector<ServerSeen>& servers) {
  std::vector<int> pids;
  for (const auto& server : servers) pids.push_back(server.pid);
  return pids;
}

std::vector<int> client_pids(const std::vector<ServerSeen>& servers) {
  std::vector<int> pids;
  for (const auto& server : servers) pids.insert(pids.end(), server.clients.begin(), server.clients.end());
  return pids;
}

void PoolDaemon::heard_servers(std::uint64_t asked, const std::vector<ServerSeen>& servers) {
  const auto clients = client_pids(servers);
  listed_.heard(asked, clients);
  std::vector<os::ProcessRef> living;
  for (const int pid : clients)
    if (const auto process = listed_.find(pid)) living.push_back(*process);
  settings_.admission->servers_listed(asked, server_pids(servers), clients);
  settings_.admission->clients_seen(living);
}

// The relay holds its clients' processes: each pid that it reports is alive.
std::optional<os::ProcessRef> PoolDaemon::client(int pid) const {
  const auto relayed = settings_.admission->relay_clients();
  if (!relayed || std::ranges::find(*relayed, pid) == relayed->end()) return listed_.find(pid);
  return os::process_ref(pid);
}

std::vector<int> PoolDaemon::clients() const {
  auto pids = settings_.admission->relay_clients().value_or(std::vector<int>{});
  const auto listed = clients_of_servers();
  pids.insert(pids.end(), listed.begin(), listed.end());
  return pids;
}

// Without neighbours, a kill hurts no other client. The pool's own CUDA start counts as a neighbour: it tests whether
// new clients can start.
bool PoolDaemon::are_alone(const std::vector<int>& pids) const {
  if (!settings_.admission->relay_clients()) return false;
  const auto all = clients();
  return proof_pid() == 0 &&
         std::ranges::all_of(all, [&](int pid) { return std::ranges::find(pids, pid) != pids.end(); });
}

void PoolDaemon::end_clients(const std::vector<int>& pids, Endings::Done done) {
  // Before the search, in which a pid may become that of another process.
  std::vector<os::ProcessRef> living;
  std::vector<int> others;
  for (const int pid : pids) {
    if (const auto ref = client(pid)) {
      living.push_back(*ref);
    } else {
      others.push_back(pid);
    }
  }
  std::set<int> own{daemon_pid(), proof_pid()};
  for (const int server : servers()) own.insert(server);
  settings_.admission->find_heirs(
      pids, std::move(own),
      [this, alive = std::weak_ptr(alive_), living, others, done = std::move(done)](const Heirs& heirs) {
        if (!alive.expired()) end_clients(living, others, heirs, done);
      });
}

// The heirs of a client that has exited are ended in its place, and their outcomes are its own.
void PoolDaemon::end_clients(std::vector<os::ProcessRef> living, const std::vector<int>& others, const Heirs& heirs,
                             const Endings::Done& done) {
  if (heirs.empty()) return end_living(others, std::move(living), done);
  std::set<int> asked;
  for (const auto& process : living) asked.insert(process.pid);
  for (const auto& processes : heirs | std::views::values)
    for (const auto& process : processes)
      if (std::ranges::find(living, process) == living.end()) living.push_back(process);
  end_living({}, std::move(living), [asked, others, heirs, done](const std::vector<Terminated>& outcomes) {
    std::vector<Terminated> all;
    for (const auto& outcome : outcomes)
      if (asked.contains(outcome.pid)) all.push_back(outcome);
    for (const int pid : others) {
      const auto found = heirs.find(pid);
      all.push_back(outcome_of(pid, found == heirs.end() ? std::vector<os::ProcessRef>{} : found->second, outcomes));
    }
    done(all);
  });
}

// The servers' lists are up to a few seconds old: for pids that are not in them, the daemon is queried.
void PoolDaemon::end_living(const std::vector<int>& pids, std::vector<os::ProcessRef> known, Endings::Done done) {
  std::vector<os::ProcessRef> asked_about;
  std::vector<Terminated> others;
  for (const int pid : std::set(pids.begin(), pids.end())) {
    if (const auto ref = client(pid)) {
      if (std::ranges::find(known, *ref) == known.end()) known.push_back(*ref);
    } else if (const auto now = os::process_ref(pid); listed_.has(pid) || !now) {
      others.push_back({pid, TerminateOutcome::kNotAClient, "the process has exited"});
    } else {
      asked_about.push_back(*now);
    }
  }
  if (asked_about.empty()) return end_known(std::move(known), std::move(others), std::move(done));
  const auto query = side_queries_.emplace(side_queries_.end());
  converse(*query, exchange_for(Ask{state_.desired}),
           [=, this, asked = os::boot_ticks(), done = std::move(done)](const Event& event) mutable {
             side_queries_.erase(query);
             if (const auto* answered = std::get_if<Answered>(&event)) heard_servers(asked, answered->servers);
             for (const auto& ref : asked_about) {
               if (client(ref.pid) == ref) {
                 known.push_back(ref);
               } else {
                 others.push_back(
                     {ref.pid, TerminateOutcome::kNotAClient, "the servers of the pool do not know this process"});
               }
             }
             end_known(std::move(known), std::move(others), std::move(done));
           });
}

void PoolDaemon::end_known(std::vector<os::ProcessRef> clients, std::vector<Terminated> others, Endings::Done done) {
  std::vector<int> pids;
  for (const auto& ref : clients) pids.push_back(ref.pid);
  const std::set<int> asked(pids.begin(), pids.end());
  const auto more = settings_.killed_with ? settings_.killed_with(clients) : std::nullopt;
  const auto all = this->clients();
  const auto is_here = [&](const auto& ref) { return std::ranges::find(all, ref.pid) != all.end(); };
  const bool here = !more || std::ranges::all_of(*more, is_here);
  for (const auto& ref : more.value_or(std::vector<os::ProcessRef>{})) {
    pids.push_back(ref.pid);
    clients.push_back(ref);
  }
  settings_.endings->begin({.patience = here && are_alone(pids) ? Duration{} : stop_patience_,
                            .killed_with = more ? settings_.killed_with : KilledWith(),
                            .patience_with_those = stop_patience_},
                           clients,
                           [this, alive = std::weak_ptr(alive_), asked, others = std::move(others),
                            done = std::move(done)](std::vector<Terminated> outcomes) {
                             if (alive.expired()) return;
                             std::erase_if(outcomes, [&](const auto& each) { return !asked.contains(each.pid); });
                             outcomes.insert(outcomes.end(), others.begin(), others.end());
                             look();  // checks that they have left MPS
                             done(outcomes);
                           });
}

// --- the limits that the daemon and its servers hold for the clients that they accept next ---------------------------

// Each change is set and read back in one control session, before a relay admits the next grant's client
// (docs/internals/mps-contract.md, "A grant's own limits").

bool PoolDaemon::holds(const DaemonLimits& limits) const {
  return !state_.turn_unknown && limits_to_set(state_) == limits;
}

void PoolDaemon::set_next_limits(const DaemonLimits& limits, Done done) {
  if (state_.state != State::kServing)
    return done(fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", settings_.id));
  if (next_limits_) {
    auto before = std::exchange(waiting_limits_, std::make_unique<LimitsChange>(limits, std::move(done)));
    if (before) before->done(fail(Kind::kUnavailable, "the limits of a different grant came first", settings_.id));
    return;
  }
  if (holds(limits)) return done({});
  next_limits_ = std::make_unique<LimitsChange>(limits, std::move(done));
  converse(next_limits_->question, exchange_for_next_clients(settings_.id, servers(), limits),
           [this](const Event& event) { next_limits_set(event); });
}

void PoolDaemon::next_limits_set(const Event& event) {
  const auto was = std::move(next_limits_);
  const auto* failed = std::get_if<QuestionFailed>(&event);
  if (failed == nullptr) log::debug("pool.limits", {{"pool", settings_.id}, {"next", to_string(was->limits)}});
  feed(failed == nullptr ? event : AdmissionLimitsUnknown{to_string(failed->error)});
  was->done(failed == nullptr ? Status() : std::unexpected(failed->error));
  if (next_limits_ || !waiting_limits_) return;  // the callback may have started the next one already
  const auto next = std::exchange(waiting_limits_, nullptr);
  set_next_limits(next->limits, std::move(next->done));
}

// The daemon does not serve any more.
void PoolDaemon::abandon_next_limits() {
  if (!next_limits_) return;
  const auto was = std::move(next_limits_);
  const auto next = std::exchange(waiting_limits_, nullptr);
  feed(AdmissionLimitsUnknown{""});
  const Status broken_off = fail(Kind::kUnavailable, "the pool does not serve", settings_.id);
  was->done(broken_off);
  if (next) next->done(broken_off);
}

}  // namespace tranche::mps
