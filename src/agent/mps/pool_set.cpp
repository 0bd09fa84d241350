#include "agent/mps/pool_set.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "host/log/log.h"

namespace tranche::agent {
namespace {

bool is_exclusive(const plan::PlannedPool& pool) {
  return pool.compute_mode == config::ComputeModePolicy::kExclusive;
}

// What a slot of a device is worth, as the resource that it is advertised under says.
const plan::PlannedDevice* find_device(const plan::Plan& plan, const std::string& uuid, const std::string& pool) {
  for (const auto& resource : plan.resources) {
    for (const auto& device : resource.devices) {
      if (device.uuid == uuid && device.pool == pool) return &device;
    }
  }
  return nullptr;
}

}  // namespace

PoolSet::PoolSet(host::Loop& loop, PoolSetSettings settings, host::ComputeModes& modes, std::function<void()> on_change)
    : loop_(loop), settings_(std::move(settings)), modes_(modes), on_change_(std::move(on_change)) {}

PoolSet::~PoolSet() {
  for (auto& [id, member] : members_) loop_.cancel(member.retry);
}

void PoolSet::set_binary(const Result<host::ControlBinary>& binary) {
  binary_ = binary;
  for (auto& [id, member] : members_) {
    if (member.wanted && !member.pool && !member.preparing) prepare(id);
  }
  on_change_();
}

void PoolSet::want(const plan::Plan& plan, const inventory::Inventory& inventory) {
  plan_ = plan;
  inventory_ = inventory;
  for (auto& [id, member] : members_) member.wanted = plan::find_pool(plan, id) != nullptr;
  for (const auto& planned : plan.pools) {
    Member& member = members_[planned.id];
    const bool same = member.planned == planned;
    member.planned = planned;
    if (!member.pool || !same || member.pool->supervisor().state == mps::State::kStopping) {
      if (!member.preparing) prepare(planned.id);
    }
  }
  for (auto& [id, member] : members_) {
    if (!member.wanted) retire_if_idle(member);
  }
  sweep();
  on_change_();
}

void PoolSet::prepare(const std::string& id) {
  Member& member = members_.at(id);
  loop_.cancel(std::exchange(member.retry, 0));
  if (!binary_) {
    member.problem = to_string(binary_.error());  // set_binary() comes back here
    return;
  }
  member.preparing = true;
  make_next_exclusive(id, is_exclusive(member.planned) ? member.planned.devices : std::vector<std::string>{});
}

// One GPU after the other; the daemon starts after the last.
void PoolSet::make_next_exclusive(const std::string& id, std::vector<std::string> left) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  Member& member = found->second;
  if (stopped_) {
    member.preparing = false;
    return sweep();
  }
  if (left.empty()) {
    member.preparing = false;
    return run(member);
  }
  const std::string uuid = left.back();
  left.pop_back();
  const auto* gpu = inventory::find_gpu(inventory_, uuid);
  const bool done_before = modes_.changed().contains(uuid) && member.pool;
  const auto present = gpu == nullptr ? inventory::ComputeMode::kDefault : gpu->compute_mode;
  const auto mode = done_before ? inventory::ComputeMode::kExclusiveProcess : present;
  modes_.make_exclusive(uuid, mode, [this, id, left = std::move(left)](const Status& status) {
    if (status) return make_next_exclusive(id, left);
    const auto again = members_.find(id);
    if (again == members_.end()) return;
    again->second.preparing = false;
    Error error = status.error();
    error.what += "; run as root, or set sharing.mps.computeMode: leave";
    fail_member(again->second, error);
  });
}

void PoolSet::fail_member(Member& member, const Error& error) {
  const std::string text = to_string(error);
  if (member.problem != text) log::error("pool.problem", {{"pool", member.planned.id}, {"why", text}});
  member.problem = text;
  const std::string id = member.planned.id;
  member.retry = loop_.after(settings_.try_again, [this, id] {
    const auto found = members_.find(id);
    if (found == members_.end()) return;
    found->second.retry = 0;
    if (found->second.wanted && !stopped_) prepare(id);
  });
  sweep();
  on_change_();
}

void PoolSet::run(Member& member) {
  if (!member.wanted) return sweep();
  if (!member.pool) {
    const std::string id = member.planned.id;
    host::PoolSettings settings{.id = id,
                                .devices = member.planned.devices,
                                .paths = settings_.paths,
                                .binary = *binary_,
                                .multiuser = serves_all_users(),
                                .supervisor = settings_.supervisor,
                                .seed = stable_hash(id)};
    auto pool = host::Pool::open(
        loop_, std::move(settings),
        {.on_change = [this, id](const mps::Supervisor& before,
                                 const mps::Supervisor& after) { pool_changed(id, before, after); },
         .on_log =
             [id](const mps::LogLine& line) {
               switch (line.what) {
                 case mps::LogWhat::kFatalCulprit:
                   log::error("mps.fatal_fault", {{"pool", id}, {"culprit_pid", line.pid}});
                   break;
                 case mps::LogWhat::kFatalVictim:
                   log::warning("mps.fault_teardown", {{"pool", id}, {"pid", line.pid}});
                   break;
                 case mps::LogWhat::kClientRefused:
                   log::warning("mps.client_refused", {{"pool", id}, {"pid", line.pid}, {"cuda_error", line.number}});
                   break;
                 case mps::LogWhat::kFatalException:
                   log::error("mps.server_exception", {{"pool", id}, {"server", line.writer}});
                   break;
                 default:
                   break;
               }
             }});
    if (!pool) return fail_member(member, pool.error());
    member.pool = *std::move(pool);
  }
  member.problem.clear();
  member.pool->want(mps::limits_of(member.planned));
}

void PoolSet::pool_changed(const std::string& id, const mps::Supervisor& before, const mps::Supervisor& after) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  if (before.state != after.state) {
    const auto state = mps::to_string(after.state);
    const bool bad = after.state == mps::State::kBackingOff || after.state == mps::State::kGivenUp ||
                     (before.state == mps::State::kServing && after.state == mps::State::kStarting);
    const auto say = bad ? log::warning : log::info;
    say("pool.state", {{"pool", id},
                       {"state", state},
                       {"was", mps::to_string(before.state)},
                       {"daemonPid", found->second.pool ? found->second.pool->daemon_pid() : 0},
                       {"why", after.reason}});
    if (after.state == mps::State::kServing) log_limits(found->second);
  }
  on_change_();
  // Not inside the pool's own turn: the pool may go.
  loop_.post([this] {
    for (auto& [other, member] : members_) {
      if (!member.wanted) retire_if_idle(member);
    }
    sweep();
  });
}

void PoolSet::log_limits(const Member& member) const {
  for (const auto& limit : member.planned.limits) {
    const auto* gpu = inventory::find_gpu(inventory_, limit.uuid);
    const auto* device = find_device(plan_, limit.uuid, member.planned.id);
    if (gpu == nullptr || device == nullptr) continue;
    const double gib_of_memory = static_cast<double>(device->memory.in_mib()) / 1024.0;
    log::info("Set device pinned memory limit", {{"device", gpu->index},
                                                 {"total_memory_gb", std::round(gib_of_memory * 100.0) / 100.0},
                                                 {"replicas", device->slots},
                                                 {"limit_per_replica_mib", device->share.memory.in_mib()},
                                                 {"client_limit_mib", limit.client.memory.in_mib()},
                                                 {"client_limit_percent", limit.client.threads.value()},
                                                 {"uuid", limit.uuid}});
  }
}

void PoolSet::retire_if_idle(Member& member) {
  if (!member.pool) return;
  const auto& s = member.pool->supervisor();
  if (s.state == mps::State::kAbsent || s.state == mps::State::kStopping) return;
  const bool has_clients =
      std::ranges::any_of(s.servers, [](const mps::ServerSeen& server) { return !server.clients.empty(); });
  if (has_clients && !stopped_) {
    member.problem = "not configured any more: it ends when its last client has left";
    return;
  }
  member.pool->stop();
}

void PoolSet::sweep() {
  if (sweeping_) return;
  sweeping_ = true;
  const std::size_t before = members_.size();
  for (auto it = members_.begin(); it != members_.end();) {
    Member& member = it->second;
    const bool unwanted = !member.wanted || stopped_;
    if (unwanted && !member.preparing && (!member.pool || member.pool->gone())) {
      loop_.cancel(member.retry);
      it = members_.erase(it);
    } else {
      ++it;
    }
  }
  sweeping_ = false;
  if (members_.size() != before) on_change_();
  give_back_unneeded();
}

void PoolSet::give_back_unneeded() {
  std::set<std::string> needed;
  for (const auto& [id, member] : members_) {
    if (!is_exclusive(member.planned) && member.wanted) continue;
    needed.insert(member.planned.devices.begin(), member.planned.devices.end());
  }
  const host::ModeJournal changed = modes_.changed();
  for (const auto& [uuid, mode] : changed) {
    if (needed.contains(uuid) || giving_back_.contains(uuid)) continue;
    giving_back_[uuid] = false;
    modes_.give_back(uuid, [this, uuid = uuid](const Status& status) {
      if (status) {
        giving_back_.erase(uuid);
      } else {
        giving_back_[uuid] = true;
        log::warning("compute_mode.kept", {{"gpu", uuid}, {"why", status.error()}});
      }
      give_back_unneeded();
      on_change_();
    });
  }
  const bool all_back = std::ranges::all_of(modes_.changed(), [&](const auto& entry) {
    const auto found = giving_back_.find(entry.first);
    return found != giving_back_.end() && found->second;
  });
  if (!stopped_ || !members_.empty() || !all_back) return;
  const auto done = std::exchange(stopped_, [] {});
  done();
}

void PoolSet::stop(std::function<void()> done) {
  stopped_ = std::move(done);
  giving_back_.clear();
  for (auto& [id, member] : members_) {
    member.wanted = false;
    if (member.pool) member.pool->stop();
  }
  sweep();
}

}  // namespace tranche::agent
