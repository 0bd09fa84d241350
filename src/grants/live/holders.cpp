#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plan/shares.h"
#include "plan/slot_id.h"
#include "programs/node/reports.h"

namespace tranche::agent {
namespace {

const plan::PlannedDevice* find_device(const plan::Plan& plan, std::string_view uuid) {
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices)
      if (device.uuid == uuid) return &device;
  return nullptr;
}

bool is_of(const plan::PlannedResource* resource, const plan::PlannedDevice& device) {
  return resource != nullptr &&
         std::ranges::find(resource->devices, device.uuid, &plan::PlannedDevice::uuid) != resource->devices.end();
}

// Which containers name a request is in their pod only, and so is how many pods use a claim that is of none: the
// request stands for the container, and the claim for the pod, by a name that no pod can have.
void add_claims(const ClaimsReport& claims, std::vector<Holder>& found) {
  for (const auto& [uid, claim] : claims.prepared) {
    const std::size_t of_claims_before = found.size();
    for (const auto& part : claim.parts) {
      if (part.grant.empty()) continue;
      const auto known = std::find_if(found.begin() + static_cast<std::ptrdiff_t>(of_claims_before), found.end(),
                                      [&](const Holder& holder) { return holder.grant == part.grant; });
      if (known != found.end()) {  // on several GPUs
        known->devices.push_back({part.gpu_uuid, 0, part.limits});
        continue;
      }
      Holder holder{claim.name.claim_namespace,
                    claim.pod.empty() ? std::string(kClaimAsPod) + claim.name.name : claim.pod,
                    part.request,
                    claims.driver,
                    {},
                    {{part.gpu_uuid, 0, part.limits}},
                    part.grant};
      holder.claim = claim.name.name;
      holder.claim_uid = uid;
      holder.of_several = claim.pod.empty();
      found.push_back(std::move(holder));
    }
  }
}

}  // namespace

// A grant is worth what it was when it was given, whatever the plan says now; only one of which that is not known is
// worth what the plan says.
std::vector<Holder> holders(const Snapshot& snapshot) {
  std::vector<Holder> found;
  for (const auto& holding : snapshot.holdings) {
    const auto* resource = plan::find_resource(snapshot.plan, holding.resource);
    const std::string grant = allocate::grant_id(holding.slots);
    Holder holder{holding.pod_namespace, holding.pod, holding.container, holding.resource, holding.slots, {}, {}};
    std::map<std::string_view, std::uint32_t> held;
    for (const auto& slot : holding.slots) ++held[plan::device_of(slot)];
    bool mps = false;
    for (const auto& [uuid, slots] : held) {
      allocate::GrantLimit limit{std::string(uuid), slots, {}};
      const auto* device = find_device(snapshot.plan, uuid);
      if (snapshot.taken_shares.contains({grant, limit.uuid})) {
        holder.taken = true;  // it holds nothing of it any more, and no limit of it is in force
        continue;
      }
      if (const auto worth = snapshot.shares.find({grant, limit.uuid}); worth != snapshot.shares.end()) {
        mps = true;
        limit.limits.memory = worth->second.memory;
        limit.limits.threads = worth->second.threads.value_or(Percent{});
        if (device != nullptr) limit.limits.sms = plan::sms_at(limit.limits.threads, device->sm_count);
      } else if (device != nullptr && !device->pool.empty() && is_of(resource, *device)) {
        mps = true;
        limit.limits = plan::share_of(*device, slots);
      }
      holder.devices.push_back(std::move(limit));
    }
    if (resource == nullptr && !mps && !holder.taken)
      continue;  // another vendor's, or one that is no longer advertised
    if (mps) holder.grant = grant;
    found.push_back(std::move(holder));
  }
  if (snapshot.claims) add_claims(*snapshot.claims, found);
  return found;
}

std::string tenant_key(const Holder& holder) {
  if (!holder.claim_uid.empty()) return fmt::format("claim {}/{}", holder.claim_uid, holder.container);
  return fmt::format("{}/{}/{}", holder.pod_namespace, holder.pod, holder.container);
}

void forget_former_holders(std::vector<host::PodHolding>& holdings, const allocate::Grant& given) {
  std::erase_if(holdings, [&](const host::PodHolding& holding) {
    return holding.resource == given.resource && std::ranges::any_of(holding.slots, [&](const std::string& slot) {
             return std::ranges::binary_search(given.slots, slot);
           });
  });
}

}  // namespace tranche::agent
