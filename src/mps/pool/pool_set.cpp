#include "mps/pool/pool_set.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "mps/daemon/room.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

bool is_exclusive(const plan::PlannedPool& pool) {
  return pool.compute_mode == config::ComputeModePolicy::kExclusive;
}

}  // namespace

PoolSet::PoolSet(host::Loop& loop, PoolSetSettings settings, host::ComputeModes& modes, std::function<void()> on_change)
    : loop_(loop), settings_(std::move(settings)), modes_(modes), on_change_(std::move(on_change)) {}

PoolSet::~PoolSet() {
  if (settings_.endpoints == nullptr) return;
  for (const auto& [id, member] : members_)
    settings_.endpoints->remove_pool(id);  // no client may connect while they stop
}

void PoolSet::set_binary(const Result<host::ControlBinary>& binary) {
  binary_ = binary;
  for (auto& [id, member] : members_) {
    if (member.wanted && !member.pool && !member.preparing) prepare(id);
  }
  on_change_();
}

void PoolSet::want(const plan::Plan& plan, const inventory::Inventory& inventory, const config::Sharing& sharing) {
  settings_.proof.every = sharing.proof_every;
  stop_patience_ = sharing.stop_patience;
  processes_per_slot_ = sharing.processes_per_slot;
  change_ = sharing.change;
  for (auto& [id, member] : members_) {
    if (!member.pool) continue;
    member.pool->prove_every(sharing.proof_every);
    member.pool->set_stop_patience(sharing.stop_patience);
  }
  plan_ = plan;
  inventory_ = inventory;
  for (auto& [id, member] : members_) member.wanted = plan::find_pool(plan, id) != nullptr;
  for (const auto& planned : plan.pools) {
    Member& member = members_.try_emplace(planned.id, loop_).first->second;
    const bool same = member.planned == planned;
    member.planned = planned;
    tell_most_clients(member);
    if (begins_anew(member) || !same) {
      if (!member.preparing) prepare(planned.id);
    }
  }
  for (auto& [id, member] : members_) {
    if (!member.wanted) retire(member);
  }
  sweep();
  on_change_();
}

void PoolSet::tell_most_clients(const Member& member) {
  if (settings_.endpoints == nullptr) return;
  const auto& planned = member.planned;
  settings_.endpoints->set_most_clients(planned.id, planned.max_clients, planned.devices, processes_per_slot_);
}

void PoolSet::prepare(const std::string& id) {
  Member& member = members_.at(id);
  member.retry.stop();
  if (!binary_) {
    member.problem = to_string(binary_.error());  // set_binary() retries
    return;
  }
  if (begins_anew(member)) {
    auto why = waits_for(id, member);
    member.waits = !why.empty();
    if (member.waits) {
      if (member.problem != why) log::info("pool.waits", {{"pool", id}, {"why", why}});
      member.problem = std::move(why);  // look_again() retries
      return sweep();
    }
  }
  member.preparing = true;
  make_next_exclusive(id, is_exclusive(member.planned) ? member.planned.devices : std::vector<std::string>{});
}

// Sets one GPU after the other; the daemon starts after the last.
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
  modes_.make_exclusive(uuid, [this, id, left = std::move(left)](const Status& status) {
    if (status) return make_next_exclusive(id, left);
    const auto again = members_.find(id);
    if (again == members_.end()) return;
    again->second.preparing = false;
    Error error = status.error();
    // Only a missing permission leaves the operator a choice. A file that cannot be written, or a driver that does not
    // answer, must be fixed: leaving the mode unchanged would remove the protection.
    if (error.kind == Kind::kDenied) error.what += "; run as root, or set sharing.mps.computeMode: leave";
    fail_member(again->second, error);
  });
}

void PoolSet::fail_member(Member& member, const Error& error) {
  const std::string text = to_string(error);
  if (member.problem != text) log::error("pool.problem", {{"pool", member.planned.id}, {"why", text}});
  member.problem = text;
  const std::string id = member.planned.id;
  member.retry.start(settings_.try_again, [this, id] {
    if (members_.at(id).wanted && !stopped_) prepare(id);
  });
  sweep();
  on_change_();
}

Status PoolSet::open_pool(Member& member) {
  const std::string id = member.planned.id;
  host::PoolSettings settings{.id = id,
                              .devices = member.planned.devices,
                              .paths = settings_.paths,
                              .binary = *binary_,
                              .multiuser = serves_all_users(),
                              .tier = host::tier_of_leftover(settings_.paths, id).value_or(chosen_tier(member).tier),
                              .home = settings_.home,
                              .supervisor = settings_.supervisor,
                              .proof = settings_.proof,
                              .proof_program = settings_.proof_program,
                              .seed = stable_hash(id),
                              .endings = settings_.endings,
                              .logs = settings_.logs};
  if (settings_.endpoints != nullptr) {
    TRY_STATUS(settings_.endpoints->add_pool(id));
    tell_most_clients(member);
    settings.open_endpoints = [endpoints = settings_.endpoints, id] { return endpoints->open_pool(id); };
    settings.relay_clients = [endpoints = settings_.endpoints, id] { return endpoints->relay_clients(id); };
    settings.take_turn = [endpoints = settings_.endpoints, id](std::function<void()> go) {
      return endpoints->take_turn(id, std::move(go));
    };
  }
  auto pool = host::Pool::open(loop_, std::move(settings), callbacks_for(id));
  if (!pool) return std::unexpected(pool.error());
  member.pool = *std::move(pool);
  member.pool->set_stop_patience(stop_patience_);
  open_namespaces(member);
  return {};
}

void PoolSet::run(Member& member) {
  if (!member.wanted || member.switching) return sweep();
  // Another holder took the GPUs while the compute modes were set.
  if (begins_anew(member) && !waits_for(member.planned.id, member).empty()) return prepare(member.planned.id);
  if (!member.pool) {
    if (const auto opened = open_pool(member); !opened) {
      member.namespaces.reset();
      member.pool.reset();
      return fail_member(member, opened.error());
    }
  }
  member.problem.clear();
  member.forced = false;
  if (const auto tier = tier_of(member); !tier.reason.empty()) {
    log::warning("pool.tier", {{"pool", member.planned.id}, {"why", tier.reason}});
  }
  member.pool->want(limits_of(member));
  switch_tier_if_idle(member);
}

// The pool itself opens them, in the callback in which its limits were read back.
void PoolSet::tell_endpoints(const std::string& id, const mps::Supervisor& before, const mps::Supervisor& after) {
  if (settings_.endpoints == nullptr) return;
  if (after.state != mps::State::kServing && before.state == mps::State::kServing) settings_.endpoints->hold_pool(id);
  std::vector<int> servers, servers_before;
  for (const auto& server : before.servers) servers_before.push_back(server.pid);
  for (const auto& server : after.servers) servers.push_back(server.pid);
  if (servers != servers_before) settings_.endpoints->server_replaced(id);
  if (const auto member = members_.find(id); member != members_.end() && member->second.pool)
    settings_.endpoints->clients_seen(id, member->second.pool->listed());
}

host::Pool::Callbacks PoolSet::callbacks_for(const std::string& id) {
  return {.on_change = [this, id](const mps::Supervisor& before,
                                  const mps::Supervisor& after) { pool_changed(id, before, after); },
          .on_log =
              [this, id](const mps::LogLine& line) {
                if (line.what == mps::LogWhat::kClientTaken && settings_.endpoints != nullptr) {
                  settings_.endpoints->server_took(id, line.pid);
                } else if (line.what == mps::LogWhat::kClientRefused) {
                  log::warning("mps.client_refused", {{"pool", id}, {"pid", line.pid}, {"cuda_error", line.number}});
                } else if (line.what == mps::LogWhat::kFatalVictim) {
                  log::warning("mps.fault_teardown", {{"pool", id}, {"pid", line.pid}});
                }
              },
          .on_fault =
              [this, id](const mps::Fault& fault) {
                log::error("mps.fault", {{"pool", id},
                                         {"kind", mps::to_string(fault.kind)},
                                         {"culprit_pid", fault.culprit},
                                         {"server", fault.server}});
                on_change_();
              },
          .on_proof =
              [this, id](const mps::Proof& before, const mps::Proof& after) {
                if (after.step != before.step && after.step != mps::Step::kNone) {
                  log::error("pool.ended_to_mend",
                             {{"pool", id}, {"what", mps::to_string(after.step)}, {"why", after.reason}});
                }
                const auto found = members_.find(id);
                if (found != members_.end()) log_state(id, found->second);
                on_change_();
              }};
}

void PoolSet::doubt(const std::string& id, const std::string& why) {
  if (Member* member = running(id)) member->pool->doubt(why);
}

void PoolSet::client_ended(const std::string& id, int pid) {
  if (Member* member = running(id)) member->pool->client_ended(pid);
}

void PoolSet::log_state(const std::string& id, Member& member) {
  if (!member.pool) return;
  const std::string state(member.pool->state_word());
  if (state == member.logged_state) return;
  const std::string was = std::exchange(member.logged_state, state);
  const bool bad =
      state == "backing-off" || state == "given-up" || state == "wedged" || (was == "serving" && state == "starting");
  const auto say = bad ? log::warning : log::info;
  say("pool.state", {{"pool", id},
                     {"state", state},
                     {"was", was.empty() ? "absent" : was},
                     {"daemonPid", member.pool->daemon_pid()},
                     {"why", member.pool->reason()}});
  if (state == "serving") log_limits(member);
  if (state == "starting") return;
  for (const auto& note : member.pool->start_notes()) {
    if (was == "starting") log::warning("pool.note", {{"pool", id}, {"text", note}});
  }
}

void PoolSet::pool_changed(const std::string& id, const mps::Supervisor& before, const mps::Supervisor& after) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  if (found->second.namespaces) found->second.namespaces->look();
  look_at_memory(found->second);
  tell_endpoints(id, before, after);
  log_state(id, found->second);
  const auto room = room_note(found->second);
  if (!room.empty() && !std::exchange(found->second.nearly_full, true))
    log::warning("pool.nearly_full", {{"pool", id}, {"why", room}});
  if (room.empty()) found->second.nearly_full = false;
  on_change_();
  // Not inside the pool's own callback, because the pool may be destroyed.
  loop_.post([this] {
    for (auto& [other, member] : members_) {
      if (!member.wanted) {
        retire_if_idle(member);
        continue;
      }
      yield_if_idle(member);
      switch_tier_if_idle(member);
    }
    sweep();
  });
}

void PoolSet::log_limits(const Member& member) const {
  for (const auto& limit : member.planned.limits) {
    const auto* device = planned_device(limit.uuid, member.planned.id);
    const auto* gpu = device == nullptr ? nullptr : inventory::find_gpu(inventory_, device->gpu_uuid);
    if (gpu == nullptr) continue;
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

std::string PoolSet::room_note(const Member& member) const {
  if (!member.pool) return {};
  const auto live = mps::live_clients(member.pool->supervisor());
  const bool joined = settings_.endpoints != nullptr && member.planned.devices.size() > 1;
  const auto fullest = joined ? settings_.endpoints->clients_on_fullest(member.planned.id) : std::nullopt;
  const auto note = mps::room_note(fullest ? static_cast<std::uint32_t>(*fullest) : live, member.planned.max_clients);
  return note.empty() || !fullest ? note : "of its fullest GPU: " + note;
}

void PoolSet::look_at_memory(Member& member) {
  if (!member.memory) member.memory.emplace(settings_.paths.mps_root + "/" + mps::kSharedMemoryFolder);
  std::vector<pid_t> servers;
  for (const auto& server : member.pool->supervisor().servers) {
    if (server.status == "ACTIVE") servers.push_back(server.pid);
  }
  if (!member.memory->look(servers) || member.memory->where() != mps::SharedMemory::kNamed) return;
  const bool given = member.memory->is_to_be_given();
  (given ? log::info : log::warning)(
      "pool.shared_memory", {{"pool", member.planned.id}, {"given", given}, {"why", member.memory->problem()}});
}

void PoolSet::sweep() {
  if (sweeping_) return;
  sweeping_ = true;
  const std::size_t before = members_.size();
  for (auto it = members_.begin(); it != members_.end();) {
    Member& member = it->second;
    const bool unwanted = !member.wanted || stopped_;
    if (!unwanted && (member.switching || member.waits) && member.pool && member.pool->gone()) {
      member.switching = false;
      member.namespaces.reset();
      member.pool.reset();
      loop_.post([this, id = it->first] {
        const auto found = members_.find(id);
        if (found != members_.end() && found->second.wanted && !found->second.preparing && !stopped_) prepare(id);
      });
    }
    if (unwanted && !member.preparing && (!member.pool || member.pool->gone())) {
      if (settings_.endpoints != nullptr) settings_.endpoints->remove_pool(it->first);
      it = members_.erase(it);
    } else {
      ++it;
    }
  }
  sweeping_ = false;
  if (members_.size() != before) {
    look_again();  // at pools that waited for it
    on_change_();
  }
  give_back_unneeded();
}

void PoolSet::give_back_unneeded() {
  std::set<std::string> needed;
  for (const auto& [id, member] : members_) {
    if (member.wanted && (!is_exclusive(member.planned) || (member.waits && !member.pool))) continue;
    needed.insert(member.planned.devices.begin(), member.planned.devices.end());
  }
  std::erase_if(giving_back_, [&](const auto& entry) { return entry.second && needed.contains(entry.first); });
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
      look_again();  // at pools that waited for it
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

void PoolSet::end(const std::vector<host::LeftPool>& left, std::function<void()> done) {
  for (const auto& one : left) {
    Member& member = members_.try_emplace(one.id, loop_).first->second;
    member.wanted = false;
    member.planned.id = one.id;
    member.planned.devices = one.devices;
    if (const auto opened = open_pool(member); !opened) {
      log::warning("pool.not_ended", {{"pool", one.id}, {"why", opened.error()}});
      continue;
    }
    member.pool->want({});  // adopts it; the limits are never set, because stop() comes before an answer
  }
  stop(std::move(done));
}

void PoolSet::stop(std::function<void()> done, bool end_clients) {
  stopped_ = std::move(done);
  giving_back_.clear();
  for (auto& [id, member] : members_) {
    member.wanted = false;
    if (!member.pool) continue;
    if (end_clients && !end_of_use(member).empty() && !member.forced) {
      retire_by_force(member);
    } else {
      member.pool->stop();
    }
  }
  sweep();
}

}  // namespace tranche::agent
