// The limits of an endpoint's clients: stored beside it, and set on the pool's daemon before one of them connects.
#include <fmt/format.h>

#include <algorithm>

#include "mps/endpoints/endpoints.h"
#include "os/log/log.h"

namespace tranche::agent {

// Grants with the same limits may connect together.
void Endpoints::set_kinds(Pool& pool) {
  if (!pool.relay) return;
  for (const auto& [grant, endpoint] : pool.endpoints)
    pool.relay->set_kind(grant, endpoint.limits ? mps::render_limits(*endpoint.limits) : std::string());
}

// Written first: if this program ends here, the endpoint does not listen yet, or the next start reads its limits.
Status Endpoints::keep_limits(const EndpointName& name, Pool& pool, const mps::GrantLimits& limits) {
  const auto known = pool.endpoints.find(name.grant);
  if (known != pool.endpoints.end() && known->second.limits == limits && known->second.unreadable.empty()) return {};
  TRY_STATUS(write_endpoint_limits(settings_.paths, name, limits));
  for (const auto& limit : limits) {
    log::info("endpoint.limits", {{"pool", name.pool},
                                  {"grant", name.grant},
                                  {"uuid", limit.uuid},
                                  {"memory_mib", limit.memory.in_mib()},
                                  {"percent", limit.threads.value()}});
  }
  Endpoint& endpoint = endpoint_of(pool, name.grant);
  endpoint.limits = limits;
  endpoint.unreadable.clear();
  endpoint.not_limited.clear();
  callbacks_.on_change();
  return {};
}

void Endpoints::recall_limits(const std::string& id, Pool& pool, const std::string& grant) {
  auto limits = read_endpoint_limits(settings_.paths, {id, grant});
  Endpoint& endpoint = endpoint_of(pool, grant);
  endpoint.any_pod = kept_for_any_pod(settings_.paths, {id, grant});
  if (auto pod = kept_pod(settings_.paths, {id, grant}); !pod.empty()) endpoint.pod = std::move(pod);
  if (limits) {
    endpoint.limits = *std::move(limits);
    return;
  }
  endpoint.unreadable = endpoint.not_limited = to_string(limits.error());
  log::error("endpoint.limits_unreadable",
             {{"pool", id}, {"grant", grant}, {"why", limits.error()}, {"effect", "its clients are not let in"}});
}

host::ProofTurn Endpoints::take_turn(const std::string& id, std::function<void()> go) {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.relay || !callbacks_.set_next_limits) {
    go();
    return nullptr;
  }
  // The relay may be destroyed before the turn ends: with the pool, or when links replace it.
  const std::weak_ptr relay = found->second.relay;
  const auto turn = found->second.relay->take_turn(std::move(go));
  return {this, [relay, turn](void*) {
            if (const auto still = relay.lock()) still->end_turn(turn);
          }};
}

void Endpoints::prepare(const std::string& id, const std::string& grant, const host::Relay::Prepared& done) {
  if (grant.empty()) return callbacks_.set_next_limits(id, std::nullopt, done);
  const Endpoint& endpoint = pools_.at(id).endpoints[grant];
  if (!endpoint.unreadable.empty()) return done(fail(Kind::kInvalid, endpoint.unreadable, grant));
  callbacks_.set_next_limits(
      id, endpoint.limits,
      [this, name = EndpointName{id, grant}, done, alive = std::weak_ptr(alive_)](const Status& status) {
        if (!alive.expired()) note_prepared(name, status);
        done(status);
      });
}

// The devices that the container holds, in the order in which it was given them; the pool's devices if it has the
// pool's own limits.
std::string Endpoints::device_answer(const std::string& id, const std::string& grant,
                                     const mps::RelayQuestion& question) const {
  const auto pool = pools_.find(id);
  if (pool == pools_.end() || !callbacks_.limits) return {};
  const auto endpoint = pool->second.endpoints.find(grant);
  if (endpoint == pool->second.endpoints.end() || !endpoint->second.unreadable.empty()) return {};
  const auto& own = endpoint->second.limits;
  auto limits = callbacks_.limits(id, own);
  if (!limits) return {};
  if (own) {
    limits->memory.clear();
    for (const auto& limit : *own)
      limits->memory.emplace_back(limit.uuid, limit.memory.value == 0 ? mps::kNoMemoryLimit : limit.memory);
  }
  return mps::answer_to(question, *limits);
}

// A container may see devices of the pool that its grant does not hold: before kubelet has reported its other devices,
// and if it is privileged. Therefore all devices count here; the guard covers values that lift the limit for fewer
// devices.
void Endpoints::look_at_environment(const std::string& id, const std::string& grant, int pid,
                                    const ClientLooks::Done& done) {
  auto devices = pools_.at(id).devices;
  // Not measured: how the driver treats a GPU's UUID in a container that sees a MIG device.
  if (std::ranges::any_of(devices, [](const std::string& uuid) { return uuid.starts_with("MIG-"); })) devices.clear();
  looks_.look(pid, std::move(devices), [this, id, grant, done](const std::string& why_not) {
    if (!why_not.empty()) note_refusal(id, grant, why_not, true);
    done(why_not);
  });
}

void Endpoints::note_refusal(const std::string& id, const std::string& grant, const std::string& why,
                             bool limit_lifted) {
  const auto pool = pools_.find(id);
  if (pool == pools_.end()) return;
  const auto endpoint = pool->second.endpoints.find(grant);
  if (endpoint == pool->second.endpoints.end()) return;
  endpoint->second.refused_why = why;
  if (limit_lifted) ++endpoint->second.limits_lifted;
}

void Endpoints::log_trouble(const std::string& id, const std::string& grant, const mps::Passage& passage,
                            std::uint32_t user) {
  std::string why;
  if (passage.end == mps::RelayEnd::kRefused)
    if (const auto pool = pools_.find(id); pool != pools_.end())
      if (const auto endpoint = pool->second.endpoints.find(grant); endpoint != pool->second.endpoints.end())
        why = endpoint->second.refused_why;
  log_.trouble(id, grant, passage, user, why, loop_.now());
}

// Through links clients connect at any time: no grant's limits may stay set.
void Endpoints::set_own_limits(const std::string& id) {
  if (!callbacks_.set_next_limits) return;
  callbacks_.set_next_limits(id, std::nullopt, [id](const Status& status) {
    if (!status) log::warning("pool.limits_not_own", {{"pool", id}, {"why", status.error()}});
  });
}

void Endpoints::note_prepared(const EndpointName& name, const Status& status) {
  const auto pool = pools_.find(name.pool);
  if (pool == pools_.end()) return;
  const auto endpoint = pool->second.endpoints.find(name.grant);
  if (endpoint == pool->second.endpoints.end()) return;
  std::string why;
  if (!status) why = fmt::format("its limits could not be set: {}", to_string(status.error()));
  if (endpoint->second.not_limited == why) return;
  if (!why.empty()) log::warning("endpoint.not_limited", {{"pool", name.pool}, {"grant", name.grant}, {"why", why}});
  endpoint->second.not_limited = std::move(why);
  callbacks_.on_change();
}

}  // namespace tranche::agent
