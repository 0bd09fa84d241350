// What the guard does, and what it tells of it.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "agent/node/guarding.h"
#include "host/log/log.h"

namespace tranche::agent {
namespace {

using What = guard::Order::What;

constexpr std::size_t kActsKept = 32;

std::string reason_of(const guard::Order& order) {
  return fmt::format("{}{} MiB on {}, {} MiB allowed", guard::kOurReason, order.sum.in_mib(), order.device,
                     order.limit.in_mib());
}

bool same_but_for_the_time(const GuardAct& a, const GuardAct& b) {
  return a.what == b.what && a.grant == b.grant && a.device == b.device && a.pid == b.pid && a.outcome == b.outcome;
}

}  // namespace

void Guarding::carry_out(guard::Order order) {
  switch (order.what) {
    case What::kTell:
      return note(order, order.processes.empty() ? nullptr : &order.processes.front(), "done", "");
    case What::kRefuse:
    case What::kLetIn:
      return admit(order);
    case What::kTerminate:
      return terminate(std::move(order));
    case What::kKill:
    case What::kEnd:
      return signal(order, SIGKILL);
    case What::kAskToEnd:
      return signal(order, SIGTERM);
  }
}

void Guarding::terminate(guard::Order order) {
  std::vector<std::uint32_t> pids;
  if (order.processes.size() > guard::kMostPidsPerRequest) order.processes.resize(guard::kMostPidsPerRequest);
  for (const auto& process : order.processes) pids.push_back(process.id.pid);
  const std::string pool = order.pool;
  const std::string reason = reason_of(order);
  hands_.terminate(
      pool, pids, reason,
      [this, alive = std::weak_ptr(alive_),
       order = std::move(order)](const Result<std::vector<mps::Terminated>>& clients) {
        if (alive.expired()) return;
        guard::answered(memory_, order, clients.value_or(std::vector<mps::Terminated>{}), loop_.now());
        for (const auto& process : order.processes) {
          if (!clients) {
            note(order, &process, "failed", to_string(clients.error()));
            continue;
          }
          const auto client = std::ranges::find(*clients, static_cast<int>(process.id.pid), &mps::Terminated::pid);
          if (client == clients->end()) {
            note(order, &process, "failed", "tranche mps did not say what became of it");
          } else {
            const bool done = client->outcome == mps::TerminateOutcome::kTerminated;
            note(order, &process, done ? "done" : std::string(mps::to_string(client->outcome)), client->note);
          }
        }
        arm(true);
      });
}

// All doors of the tenant, by any of which its container may come in; done when the last has answered.
void Guarding::admit(const guard::Order& order) {
  const bool open = order.what == What::kLetIn;
  const auto tenant = tenants_.find(order.grant);
  const auto grants = tenant == tenants_.end() ? std::vector{order.grant} : tenant->second.grants;
  struct Outcome {
    std::size_t waiting;
    Status status;
  };
  const auto outcome = std::make_shared<Outcome>(Outcome{grants.size(), {}});
  for (const auto& grant : grants) {
    hands_.admit(order.pool, grant, open,
                 open ? std::string(guard::kOurReason) + "within its limit again" : reason_of(order),
                 [this, alive = std::weak_ptr(alive_), order, outcome](const Status& done) {
                   if (alive.expired()) return;
                   if (!done) outcome->status = done;
                   if (--outcome->waiting > 0) return;
                   const Status& all = outcome->status;
                   note(order, nullptr, all ? "done" : "failed", all ? "" : to_string(all.error()));
                   if (!all) guard::not_admitted(memory_, order, loop_.now());
                   arm(true);
                 });
  }
}

void Guarding::signal(const guard::Order& order, int number) {
  for (const auto& process : order.processes) {
    const Status sent = processes_.signal(process.id, number);
    note(order, &process, sent ? "done" : "failed", sent ? "" : to_string(sent.error()));
  }
}

void Guarding::note(const guard::Order& order, const guard::Process* process, const std::string& outcome,
                    std::string why) {
  GuardAct act;
  act.at = loop_.wall_now();
  act.what = guard::to_string(order.what);
  act.grant = order.grant;
  if (const auto holder = holder_of_.find(order.grant); holder != holder_of_.end()) act.holder = holder->second;
  act.device = order.device;
  act.pool = order.pool;
  act.resource = order.resource;
  act.policy = order.policy;
  if (process != nullptr) {
    act.pid = process->id.pid;
    act.memory = process->memory;
  }
  act.sum = order.sum;
  act.limit = order.limit;
  act.outcome = outcome;
  act.note = std::move(why);
  if (order.what != What::kLetIn) act.took = std::max(Duration{}, loop_.now() - order.since);
  ++report_.counts[{act.resource, act.policy, act.outcome}];
  const bool again = !report_.acts.empty() && outcome != "done" && same_but_for_the_time(report_.acts.back(), act);
  if (again) {
    act.times = report_.acts.back().times + 1;
    report_.acts.back() = act;
  } else {
    if (report_.acts.size() == kActsKept) report_.acts.erase(report_.acts.begin());
    report_.acts.push_back(act);
    log::warning("guard.act", {{"what", act.what},
                               {"outcome", act.outcome},
                               {"holder", act.holder},
                               {"grant", act.grant},
                               {"pid", act.pid},
                               {"device", act.device},
                               {"held_mib", act.sum.in_mib()},
                               {"limit_mib", act.limit.in_mib()},
                               {"policy", act.policy},
                               {"took_ms", std::chrono::duration_cast<std::chrono::milliseconds>(act.took).count()},
                               {"why", act.note}});
    if (hands_.told) hands_.told(act);
  }
  hands_.changed();
}

}  // namespace tranche::agent
