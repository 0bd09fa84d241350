// What a door's clients are worth: kept beside it, and told to the pool's daemon before one of them comes in.
#include <fmt/format.h>

#include <algorithm>

#include "mps/endpoints/endpoints.h"
#include "os/log/log.h"

namespace tranche::agent {

// Grants of one kind may come in together; where each has a namespace, all may.
void Doors::set_kinds(Pool& pool) {
  if (!pool.gate) return;
  for (const auto& [grant, door] : pool.doors) {
    const bool own = pool.server.empty() && door.limits;
    pool.gate->set_kind(grant, own ? mps::render_limits(*door.limits) : std::string());
  }
}

// Written first: should we end here, the door does not listen yet, or knows its limits at the next start.
Status Doors::keep_limits(const DoorName& name, Pool& pool, const mps::GrantLimits& limits) {
  const auto known = pool.doors.find(name.grant);
  if (known != pool.doors.end() && known->second.limits == limits && known->second.unreadable.empty()) return {};
  if (!pool.server.empty() && !clients_of(name).empty())
    return fail(Kind::kConflict, "in tier v3 a grant's limits cannot change while its clients run", name.grant);
  TRY_STATUS(write_door_limits(settings_.paths, name, limits));
  for (const auto& limit : limits) {
    log::info("door.limits", {{"pool", name.pool},
                              {"grant", name.grant},
                              {"uuid", limit.uuid},
                              {"memory_mib", limit.memory.in_mib()},
                              {"percent", limit.threads.value()}});
  }
  Door& door = door_of(pool, name.grant);
  door.limits = limits;
  door.unreadable.clear();
  door.not_limited.clear();
  world_.on_change();
  return {};
}

void Doors::recall_limits(const std::string& id, Pool& pool, const std::string& grant) {
  auto limits = read_door_limits(settings_.paths, {id, grant});
  Door& door = door_of(pool, grant);
  door.any_pod = kept_for_any_pod(settings_.paths, {id, grant});
  if (limits) {
    door.limits = *std::move(limits);
    return;
  }
  door.unreadable = door.not_limited = to_string(limits.error());
  log::error("door.limits_unreadable",
             {{"pool", id}, {"grant", grant}, {"why", limits.error()}, {"effect", "its clients are not let in"}});
}

host::ProofTurn Doors::take_turn(const std::string& id, std::function<void()> go) {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.gate || !world_.tell_next) {
    go();
    return nullptr;
  }
  // The gate may go before the turn does: with the pool, or to make room for links.
  const std::weak_ptr gate = found->second.gate;
  const auto turn = found->second.gate->take_turn(std::move(go));
  return {this, [gate, turn](void*) {
            if (const auto still = gate.lock()) still->end_turn(turn);
          }};
}

void Doors::prepare(const std::string& id, const std::string& grant, const host::Gate::Prepared& done) {
  if (grant.empty()) return world_.tell_next(id, std::nullopt, done);
  const Door& door = pools_.at(id).doors[grant];
  if (!door.unreadable.empty()) return done(fail(Kind::kInvalid, door.unreadable, grant));
  world_.tell_next(id, door.limits,
                   [this, name = DoorName{id, grant}, done, alive = std::weak_ptr(alive_)](const Status& status) {
                     if (!alive.expired()) note_prepared(name, status);
                     done(status);
                   });
}

// The devices that the container holds, in the order in which it was told of them; the pool's, where it is worth the
// pool's own.
std::string Doors::told_of_itself(const std::string& id, const std::string& grant,
                                  const mps::GateQuestion& question) const {
  const auto pool = pools_.find(id);
  if (pool == pools_.end() || !world_.limits) return {};
  const auto door = pool->second.doors.find(grant);
  if (door == pool->second.doors.end() || !door->second.unreadable.empty()) return {};
  const auto& own = door->second.limits;
  const auto limits = world_.limits(id, own);
  if (!limits) return {};
  std::vector<std::string> devices;
  if (own) {
    for (const auto& limit : *own) devices.push_back(limit.uuid);
  } else {
    for (const auto& [uuid, memory] : limits->memory) devices.push_back(uuid);
  }
  return mps::answer_to(question, *limits, devices);
}

// A container may see other devices of the pool than its grant's: before kubelet has said what it holds besides, and
// where it is privileged. So all of them count, and what lifts the limit for fewer only is the guard's to hold.
void Doors::look_at(const std::string& id, const std::string& grant, int pid, const ClientLooks::Done& done) {
  auto devices = pools_.at(id).devices;
  // What the driver makes of a GPU's UUID where a MIG device is seen, nobody has measured.
  if (std::ranges::any_of(devices, [](const std::string& uuid) { return uuid.starts_with("MIG-"); })) devices.clear();
  looks_.look(pid, std::move(devices), [this, id, grant, done](const std::string& why_not) {
    if (!why_not.empty()) note_refusal(id, grant, why_not, true);
    done(why_not);
  });
}

void Doors::note_refusal(const std::string& id, const std::string& grant, const std::string& why, bool limit_lifted) {
  const auto pool = pools_.find(id);
  if (pool == pools_.end()) return;
  const auto door = pool->second.doors.find(grant);
  if (door == pool->second.doors.end()) return;
  door->second.refused_why = why;
  if (limit_lifted) ++door->second.limits_lifted;
}

void Doors::tell_trouble(const std::string& id, const std::string& grant, const mps::Passage& passage,
                         std::uint32_t user) {
  std::string why;
  if (passage.end == mps::GateEnd::kRefused)
    if (const auto pool = pools_.find(id); pool != pools_.end())
      if (const auto door = pool->second.doors.find(grant); door != pool->second.doors.end())
        why = door->second.refused_why;
  log_.trouble(id, grant, passage, user, why, loop_.now());
}

// Through links anybody comes in at any time: no grant's limits may stay behind.
void Doors::tell_own_limits(const std::string& id) {
  if (!world_.tell_next) return;
  world_.tell_next(id, std::nullopt, [id](const Status& status) {
    if (!status) log::warning("pool.limits_not_own", {{"pool", id}, {"why", status.error()}});
  });
}

void Doors::note_prepared(const DoorName& name, const Status& status) {
  const auto pool = pools_.find(name.pool);
  if (pool == pools_.end()) return;
  const auto door = pool->second.doors.find(name.grant);
  if (door == pool->second.doors.end()) return;
  std::string why;
  if (!status) why = fmt::format("its limits could not be set: {}", to_string(status.error()));
  if (door->second.not_limited == why) return;
  if (!why.empty()) log::warning("door.not_limited", {{"pool", name.pool}, {"grant", name.grant}, {"why", why}});
  door->second.not_limited = std::move(why);
  world_.on_change();
}

}  // namespace tranche::agent
