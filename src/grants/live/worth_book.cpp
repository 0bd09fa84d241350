#include "grants/live/worth_book.h"

#include <algorithm>
#include <optional>

#include "guard/tenants.h"
#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"
#include "programs/node/recall.h"

namespace tranche::agent {
namespace {

constexpr const char* kFile = "grants.txt";
// kubelet names a grant a little after our answer, and may start its container much later.
constexpr Duration kForgetAfter = std::chrono::minutes(10);
constexpr Duration kListedWithin = std::chrono::seconds(10);

const plan::PlannedDevice* find_device(const plan::Plan& plan, const std::string& resource, const std::string& uuid) {
  const auto* found = plan::find_resource(plan, resource);
  if (found == nullptr) return nullptr;
  for (const auto& device : found->devices)
    if (device.uuid == uuid) return &device;
  return nullptr;
}

// What `tranche mps` keeps with the grant's endpoint: what it was worth when it was given.
std::optional<guard::Worth> told_of(const PoolReports& pools, const Holder& holder, const std::string& uuid) {
  for (const auto& [id, pool] : pools.pools) {
    const auto endpoint = std::ranges::find(pool.endpoints, holder.grant, &EndpointReport::grant);
    if (endpoint == pool.endpoints.end()) continue;
    const auto limits = endpoint->limits.value_or(std::vector<EndpointLimit>{});
    const auto limit = std::ranges::find(limits, uuid, &EndpointLimit::uuid);
    if (limit == limits.end()) continue;
    return guard::Worth{id, holder.resource, mib(limit->memory_mib), Percent{limit->threads_hundredths}};
  }
  return std::nullopt;
}

// What a claim is worth stands in its record, whatever its endpoint was told, and whatever it was when it was prepared
// before.
void take_record(guard::Worth& worth, const allocate::GrantLimit& device) {
  worth.memory = device.limits.memory;
  worth.threads = device.limits.threads;
}

// By what it is of: a driver's name has no slash, and a resource's has one.
bool is_of_claim(const guard::Worth& worth) {
  return worth.resource.find('/') == std::string::npos;
}

bool has_endpoint(const PoolReports& pools, const std::string& grant) {
  return std::ranges::any_of(pools.pools, [&](const auto& entry) {
    return std::ranges::find(entry.second.endpoints, grant, &EndpointReport::grant) != entry.second.endpoints.end();
  });
}

}  // namespace

WorthBook::WorthBook(const std::string& run_dir) : run_dir_(run_dir) {
  const auto text =
      recall(run_dir, kFile, "what these grants are limited to is asked of tranche mps, or taken from the plan");
  worths_ = guard::parse_worths(text);
  tell_if_partly(run_dir, kFile, guard::render_worths(worths_) == text);
}

void WorthBook::given(const std::vector<allocate::Grant>& grants, MonoTime now) {
  const guard::Worths before = worths_;
  for (const auto& grant : grants) {
    guard::part(worths_, grant.id);
    std::erase_if(worths_, [&](const auto& entry) { return entry.first.first == grant.id; });
    if (grant.pool.empty()) continue;
    named_[grant.id] = now;
    for (const auto& device : grant.devices)
      worths_[{grant.id, device.uuid}] = {grant.pool, grant.resource, device.limits.memory, device.limits.threads};
  }
  if (worths_ != before) write();
}

void WorthBook::learn(const Holder& holder, const plan::Plan& plan, const PoolReports& pools) {
  if (!pools.connected) return;  // `tranche mps` may know it, and is asked first
  for (const auto& device : holder.devices) {
    const auto known = worths_.find({holder.grant, device.uuid});
    if (known != worths_.end()) {
      if (!holder.claim.empty()) take_record(known->second, device);
      continue;
    }
    if (auto told = told_of(pools, holder, device.uuid)) {
      if (!holder.claim.empty()) take_record(*told, device);
      worths_[{holder.grant, device.uuid}] = *told;
      continue;
    }
    const auto* planned = find_device(plan, holder.resource, device.uuid);
    if (planned == nullptr || planned->pool.empty()) continue;
    worths_[{holder.grant, device.uuid}] = {planned->pool, holder.resource, device.limits.memory,
                                            device.limits.threads};
  }
}

void WorthBook::held(const std::vector<Holder>& holders, const plan::Plan& plan, const PoolReports& pools,
                     bool complete, MonoTime now) {
  const guard::Worths before = worths_;
  std::vector<guard::HeldGrant> held;
  for (const auto& holder : holders) {
    if (holder.grant.empty()) continue;
    named_[holder.grant] = now;
    learn(holder, plan, pools);
    held.push_back({tenant_key(holder), holder.grant});
  }
  guard::join(worths_, held);
  if (pools.connected) forget_claims(held, pools);
  if (complete) {
    for (const auto& [key, worth] : worths_) named_.try_emplace(key.first, now);  // read from the file
    std::erase_if(named_, [&](const auto& entry) { return now - entry.second > kForgetAfter; });
    std::erase_if(worths_, [&](const auto& entry) { return !named_.contains(entry.first.first); });
  }
  if (worths_ != before) write();
}

// A claim that was unprepared has no endpoint any more. One with an endpoint may have processes, whatever is known of
// it.
void WorthBook::forget_claims(const std::vector<guard::HeldGrant>& held, const PoolReports& pools) {
  std::erase_if(worths_, [&](const auto& entry) {
    const auto& grant = entry.first.first;
    const bool over = is_of_claim(entry.second) && !has_endpoint(pools, grant) &&
                      std::ranges::find(held, grant, &guard::HeldGrant::grant) == held.end();
    if (over) named_.erase(grant);
    return over;
  });
}

bool WorthBook::awaits_kubelet(MonoTime now) const {
  return std::ranges::any_of(worths_, [&](const auto& entry) {
    const auto named = named_.find(entry.first.first);
    return entry.second.threads && entry.second.tenant.empty() && named != named_.end() &&
           now - named->second < kListedWithin;
  });
}

void WorthBook::write() {
  const auto dir = host::Dir::open(run_dir_);
  const Status written =
      dir ? host::write_kept(*dir, kFile, guard::render_worths(worths_), 0600) : std::unexpected(dir.error());
  if (!written) log::warning("guard.worth_not_written", {{"why", written.error()}});
}

}  // namespace tranche::agent
