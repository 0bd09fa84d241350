// Carries out the guard's orders, and reports them.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/text.h"
#include "node/guard/guarding.h"
#include "node/recall.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

using What = guard::Order::What;

constexpr std::size_t kActsKept = 32;
constexpr const char* kStoppedFile = "stopped.txt";

std::string reason_of(const guard::Order& order) {
  return fmt::format("memory: {} MiB on {}, {} MiB allowed", order.sum.in_mib(), order.device, order.limit.in_mib());
}

bool same_but_for_the_time(const GuardAct& a, const GuardAct& b) {
  return guard::to_string(a.what) == guard::to_string(b.what) && a.grant == b.grant && a.device == b.device &&
         a.pid == b.pid && a.outcome == b.outcome;
}

}  // namespace

void Guarding::read_stopped() {
  written_ = recall(run_dir_, kStoppedFile, "a process that the guard stopped before may stay stopped: kill -CONT it");
  memory_.stopped = guard::parse_stopped(written_);
  log_if_partial(run_dir_, kStoppedFile, guard::render_stopped(memory_.stopped) == written_);
  for (auto& [id, each] : memory_.stopped) each.since = loop_.now();
}

// In the file for the next start: a restart of the agent must not leave a process stopped.
void Guarding::keep_stopped() {
  auto text = guard::render_stopped(memory_.stopped);
  if (text == written_) return;
  written_ = std::move(text);
  const auto dir = os::Dir::open(run_dir_);
  const Status written = dir ? os::write_kept(*dir, kStoppedFile, written_, 0600) : std::unexpected(dir.error());
  if (!written)
    log::warning("guard.stopped_not_written",
                 {{"why", written.error()},
                  {"what", "a process that is stopped now stays stopped if the agent ends before it continues it"}});
  callbacks_.changed();
}

void Guarding::carry_out(const guard::Order& order) {
  switch (order.what) {
    case What::kReport:
      return note(act_of(order, order.processes.front()), "done", "");
    case What::kStop:
      return signal(order, SIGSTOP);
    case What::kContinue:
      return signal(order, SIGCONT);
    case What::kTerminate:
      return terminate(order);
    case What::kKill:
    case What::kEnd:
      return signal(order, SIGKILL);
    case What::kAskToEnd:
      return signal(order, SIGTERM);
  }
}

// Immediately, in the callback that judged the sample. `tranche mps` stops them as well, so a process that cannot be
// stopped here is included in the request nevertheless.
void Guarding::stop(const guard::Order& order) {
  for (const auto& process : order.processes) {
    if (process.id.start_ticks == 0) continue;  // a client that has exited: only `tranche mps` can end what keeps it
    const Status sent = processes_.signal(process.id, SIGSTOP);
    const Duration after = std::max(Duration{}, loop_.now() - order.since);
    log::warning("guard.stop", {{"grant", order.grant},
                                {"pid", process.id.pid},
                                {"device", order.device},
                                {"held_mib", order.sum.in_mib()},
                                {"limit_mib", order.limit.in_mib()},
                                {"after_ms", milliseconds_of(after)},
                                {"why_not", sent ? "" : to_string(sent.error())}});
  }
}

void Guarding::terminate(const guard::Order& order) {
  stop(order);
  mps::TerminateRequest request{.pool = order.pool, .reason = reason_of(order)};
  std::vector<GuardAct> acts;
  for (const auto& process : order.processes) {
    request.pids.push_back(process.id.pid);
    acts.push_back(act_of(order, process));
  }
  mps_.request(request, [this, order, acts = std::move(acts)](const Result<std::vector<mps::Terminated>>& reply) {
    const auto over = memory_.over.find({order.grant, order.device});
    const Bytes most = over == memory_.over.end() ? order.sum : over->second.most;
    const auto clients = reply.value_or(std::vector<mps::Terminated>{});
    const std::string failed = reply ? "tranche mps did not say what became of it" : to_string(reply.error());
    guard::answered(memory_, order, clients, loop_.now());
    for (GuardAct act : acts) {
      act.most = most;
      const auto client = std::ranges::find(clients, act.pid, &mps::Terminated::pid);
      if (client == clients.end()) {
        note(std::move(act), "failed", failed + "; the process stays stopped");
      } else {
        const bool done = client->outcome == mps::TerminateOutcome::kTerminated;
        note(std::move(act), done ? "done" : std::string(mps::to_string(client->outcome)), client->note);
      }
    }
    keep_stopped();
    arm(true);
  });
}

void Guarding::signal(const guard::Order& order, int number) {
  const bool ends = number != SIGSTOP && number != SIGCONT;
  for (const auto& process : order.processes) {
    const Status sent = processes_.signal(process.id, number);
    if (!ends && !sent && sent.error().kind == Kind::kNotFound) {  // it has exited meanwhile, and needs neither
      memory_.stopped.erase(process.id);
      continue;
    }
    if (order.again) {
      log::warning("guard.stop_again", {{"grant", order.grant}, {"pid", process.id.pid}, {"device", order.device}});
      continue;
    }
    note(act_of(order, process), sent ? "done" : "failed", sent ? "" : to_string(sent.error()));
  }
}

std::string Guarding::holder_of(const std::string& grant, const std::string& otherwise) const {
  const auto* holder = find_holder(holders_, grant);
  return holder == nullptr ? otherwise : holder_name(*holder);
}

// Other tenants whose work was on the GPU at that moment.
std::vector<std::string> Guarding::beside(const guard::Order& order) const {
  std::set<std::string> others;
  for (const auto& device : devices_) {
    if (device.uuid != order.device) continue;
    for (const auto& process : device.processes)
      if (process.mps_client && !process.ours && !process.grant.empty() && process.grant != order.grant)
        others.insert(holder_of(process.grant, process.grant));
  }
  return {others.begin(), others.end()};
}

GuardAct Guarding::act_of(const guard::Order& order, const guard::Process& process) const {
  GuardAct act;
  static_cast<guard::Order&>(act) = order;
  act.processes.clear();
  act.holder = holder_of(order.grant);
  act.pid = process.id.pid;
  act.memory = process.memory;
  if (const auto stopped = memory_.stopped.find(process.id); stopped != memory_.stopped.end())
    act.stopped = std::max(Duration{}, stopped->second.since - order.since);
  act.most = order.sum;
  act.beside = beside(order);
  return act;
}

void Guarding::note(GuardAct act, const std::string& outcome, std::string why) {
  act.at = loop_.wall_now();
  act.outcome = outcome;
  act.note = std::move(why);
  if (act.what != What::kContinue) act.took = std::max(Duration{}, loop_.now() - act.since);
  ++report_.counts[{act.resource, act.policy, act.outcome}];
  const bool ended = act.what == What::kTerminate || act.what == What::kKill || act.what == What::kEnd;
  if (ended && outcome == "done") {
    const bool for_memory = act.what != What::kEnd;
    guard::change(figures_, [&](guard::Figures& figures) {
      const auto figure = figures.find({act.grant, act.device});
      if (figure != figures.end()) ++figure->second.stops[for_memory ? guard::kStopForMemory : guard::kStopOutsideMps];
    });
  }
  const bool again = !report_.acts.empty() && outcome != "done" && same_but_for_the_time(report_.acts.back(), act);
  if (again) {
    act.times = report_.acts.back().times + 1;
    report_.acts.back() = act;
  } else {
    if (report_.acts.size() == kActsKept) report_.acts.erase(report_.acts.begin());
    report_.acts.push_back(act);
    log::warning("guard.act", {{"what", guard::to_string(act.what)},
                               {"outcome", act.outcome},
                               {"holder", act.holder},
                               {"grant", act.grant},
                               {"pid", act.pid},
                               {"device", act.device},
                               {"held_mib", act.sum.in_mib()},
                               {"limit_mib", act.limit.in_mib()},
                               {"over_mib", act.most > act.limit ? (act.most - act.limit).in_mib() : 0},
                               {"policy", act.policy},
                               {"stopped_ms", act.stopped ? milliseconds_of(*act.stopped) : -1},
                               {"took_ms", milliseconds_of(act.took)},
                               {"beside", join(act.beside, ",")},
                               {"why", act.note}});
    callbacks_.acted(act);
  }
  callbacks_.changed();
}

}  // namespace tranche::node
