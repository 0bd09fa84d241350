#include "node/grants/holders.h"

#include <algorithm>
#include <map>

#include "node/snapshot.h"
#include "plan/shares.h"

namespace tranche::node {
namespace {

// Which containers name a request is in their pod only, and so is how many pods use a claim that is of none: the
// request stands for the container, and the claim for the pod, by a name that no pod can have.
void add_claims(std::vector<Holder>& found, const ClaimsReport& claims) {
  for (const auto& [uid, claim] : claims.prepared) {
    const auto before = static_cast<std::ptrdiff_t>(found.size());
    for (const auto& part : claim.parts) {
      if (part.grant.empty()) continue;
      const auto known = std::ranges::find(found.begin() + before, found.end(), part.grant, &Holder::grant);
      if (known != found.end()) {  // on several GPUs
        known->devices.push_back({part.gpu_uuid, 0, part.limits});
        continue;
      }
      Holder holder{claim.name.claim_namespace,
                    claim.pod.empty() ? std::string(grants::kClaimAsPod) + claim.name.name : claim.pod,
                    part.request,
                    claims.driver,
                    {},
                    {{part.gpu_uuid, 0, part.limits}},
                    part.grant};
      holder.claim = claim.name.name;
      holder.claim_uid = uid;
      holder.pool = part.mps_pool;
      found.push_back(std::move(holder));
    }
  }
}

void add_ids(Holder& holder, const kube::PodTable& pods) {
  const auto* pod = pods.find(holder.pod_namespace, holder.pod);
  if (pod == nullptr) return;
  holder.pod_uid = pod->uid;
  holder.deleting = pod->deleting;
  const auto container = std::ranges::find(pod->containers, holder.container, &kube::ContainerSeen::name);
  if (container != pod->containers.end()) holder.container_id = container->container_id;
}

}  // namespace

// A grant has the pool and the limits that it was given, whatever the plan has now. Only where those are not known, it
// has the plan's.
std::vector<Holder> holders(const NodeView& node, const kube::PodTable& pods) {
  std::vector<Holder> found;
  found.reserve(node.in.holdings.size());
  const Decision& decision = node.decision;
  for (const auto& holding : node.in.holdings) {
    const auto* resource = plan::find_resource(decision.plan, holding.resource);
    const std::string grant = grants::grant_id(holding.slots);
    Holder holder{holding, {}, {}};
    std::map<std::string_view, std::uint32_t> held;
    for (const auto& slot : holding.slots) ++held[plan::device_of(slot)];
    bool mps = false;
    for (const auto& [uuid, slots] : held) {
      const std::pair key(grant, std::string(uuid));
      grants::GrantLimit limit{key.second, slots, {}};
      const auto* device = plan::find_device(decision.plan, uuid);
      if (const auto share = decision.shares->find(key); share != decision.shares->end()) {
        mps = true;
        if (holder.pool.empty()) holder.pool = share->second.pool;
        limit.limits.memory = share->second.memory;
        limit.limits.threads = share->second.threads;
        if (device != nullptr) limit.limits.sms = plan::sms_at(limit.limits.threads, device->sm_count);
      } else if (device != nullptr && !device->pool.empty() &&
                 plan::find_device(decision.plan, holding.resource, uuid) != nullptr) {
        mps = true;
        if (holder.pool.empty()) holder.pool = device->pool;
        limit.limits = plan::share_of(*device, slots);
      }
      holder.devices.push_back(std::move(limit));
    }
    if (resource == nullptr && !mps) continue;  // another vendor's, or one that is no longer advertised
    if (mps) holder.grant = grant;
    found.push_back(std::move(holder));
  }
  if (node.in.claims) add_claims(found, *node.in.claims);
  for (auto& holder : found) add_ids(holder, pods);
  return found;
}

const Holder* find_holder(const std::vector<Holder>& holders, const std::string& grant) {
  const auto found = grant.empty() ? holders.end() : std::ranges::find(holders, grant, &Holder::grant);
  return found == holders.end() ? nullptr : &*found;
}

kube::ObjectRef object_of(const Holder& holder) {
  if (!holder.pod.starts_with(grants::kClaimAsPod))
    return kube::ObjectRef::pod(holder.pod_namespace, holder.pod, holder.pod_uid);
  return {"ResourceClaim", holder.pod_namespace, holder.pod.substr(grants::kClaimAsPod.size()), holder.claim_uid};
}

std::optional<std::vector<grants::Endpoint>> endpoints_of(const mps::PoolReports& pools) {
  if (!pools.connected) return std::nullopt;
  std::vector<grants::Endpoint> endpoints;
  for (const auto& [id, pool] : pools.pools) {
    for (const auto& endpoint : pool.endpoints) {
      auto& out = endpoints.emplace_back(id, endpoint.grant, !endpoint.clients.empty(), endpoint.made);
      for (const auto& limit : endpoint.limits.value_or(mps::GrantLimits{}))
        out.limits.push_back({.uuid = limit.uuid, .limits = {.memory = limit.memory, .threads = limit.threads}});
    }
  }
  return endpoints;
}

}  // namespace tranche::node
