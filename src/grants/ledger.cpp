#include "grants/ledger.h"

#include <algorithm>
#include <iterator>

namespace tranche::grants {
namespace {

bool overlap(const Held& a, const Held& b) {
  return a.resource == b.resource && std::ranges::find_first_of(a.slots, b.slots) != a.slots.end();
}

// What `tranche mps` keeps with the grant's endpoint.
std::optional<Share> share_at_endpoint(const std::vector<Endpoint>& endpoints, const Holder& holder,
                                       const std::string& uuid) {
  for (const auto& endpoint : endpoints) {
    if (endpoint.grant != holder.grant) continue;
    const auto limit = std::ranges::find(endpoint.limits, uuid, &GrantLimit::uuid);
    if (limit != endpoint.limits.end())
      return Share{endpoint.pool, holder.resource, limit->limits.memory, limit->limits.threads};
  }
  return std::nullopt;
}

// A driver's name has no slash, and a resource's has one.
bool is_of_claim(const Share& share) {
  return share.resource.find('/') == std::string::npos;
}

}  // namespace

std::string holder_name(const Holder& holder) {
  return holder.pod_namespace + "/" + holder.pod + "/" + holder.container;
}

std::string tenant_key(const Holder& holder) {
  if (!holder.claim_uid.empty()) return "claim " + holder.claim_uid + "/" + holder.container;
  return holder_name(holder);
}

Ledger::Ledger(Shares kept) : shares_(std::move(kept)) {
  for (const auto& [key, share] : shares_) unnamed_.insert(key.first);
}

void Ledger::given(const Grant& grant, MonoTime now) {
  Held held{.resource = grant.resource, .slots = grant.slots};
  std::ranges::sort(held.slots);
  std::erase_if(entries_, [&](const Entry& entry) { return overlap(entry.held, held); });
  entries_.push_back({std::move(held), now, {}});

  part_grant(shares_, grant.id);
  std::erase_if(shares_, [&](const auto& entry) { return entry.first.first == grant.id; });
  if (grant.pool.empty()) return;
  named_[grant.id] = now;
  unnamed_.erase(grant.id);
  for (const auto& device : grant.devices)
    shares_[{grant.id, device.uuid}] = {grant.pool, grant.resource, device.limits.memory, device.limits.threads};
  seen_[{grant.pool, grant.id}] = {};
}

void Ledger::listed(const std::vector<Held>& list, MonoTime asked, const RunningPod& running) {
  const auto uid_of = [&running](const Held& held) { return running ? running(held) : std::string(); };
  const auto before = std::exchange(entries_, {});
  for (auto held : list) {
    std::ranges::sort(held.slots);
    std::string uid = uid_of(held);
    entries_.push_back({std::move(held), {}, {}, std::move(uid)});
  }
  std::set<std::pair<std::string_view, std::string_view>> pods;
  for (const auto& held : list) pods.emplace(held.pod_namespace, held.pod);
  const auto is_late = [&](const Entry& entry) {
    return entry.is_listed() && !entry.pod_uid.empty() && !pods.contains({entry.held.pod_namespace, entry.held.pod}) &&
           entry.pod_uid == uid_of(entry.held) &&
           std::ranges::none_of(list, [&](const Held& held) { return overlap(held, entry.held); });
  };
  std::ranges::copy_if(before, std::back_inserter(entries_), is_late);
  behind_ = entries_.size() > list.size() ||
            (running && std::ranges::any_of(entries_, [](const Entry& entry) { return entry.pod_uid.empty(); }));
  unknown_.clear();
  asked_ = asked;
  listed_.clear();
  for (const auto& entry : entries_) listed_.insert(grant_id(entry.held.slots));
  const auto patience = entries_.empty() ? kPatience.confirm_none : kPatience.confirm;
  const auto named = entries_.size();
  for (auto entry : before) {
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(named);
    const auto same = std::find_if(entries_.begin(), end, [&](const Entry& e) { return overlap(e.held, entry.held); });
    const bool newer = entry.given && asked <= *entry.given;  // this answer could not name it yet
    if (same != end && !newer) continue;
    if (!entry.given || asked - *entry.given >= kPatience.listed_within) {
      if (entry.missing && asked - *entry.missing >= patience) continue;
      if (!entry.missing) entry = {{.resource = entry.held.resource, .slots = entry.held.slots}, entry.given, asked};
    }
    if (same != end)
      *same = std::move(entry);
    else
      entries_.push_back(std::move(entry));
  }
}

std::vector<Held> Ledger::held() const {
  std::vector<Held> held;
  for (const auto& entry : entries_) held.push_back(entry.held);
  return held;
}

std::vector<Held> Ledger::as_listed() const {
  std::vector<Held> listed;
  for (const auto& entry : entries_)
    if (entry.is_listed()) listed.push_back(entry.held);
  return listed;
}

bool Ledger::in_doubt() const {
  return std::ranges::any_of(entries_, [](const Entry& entry) { return entry.missing || entry.given; });
}

void Ledger::learn(const Holder& holder, const plan::Plan& plan, const std::vector<Endpoint>& endpoints) {
  for (const auto& device : holder.devices) {
    const GrantOnDevice key{holder.grant, device.uuid};
    auto known = shares_.find(key);
    if (known == shares_.end()) {
      auto share = share_at_endpoint(endpoints, holder, device.uuid);
      if (!share) {
        const auto* planned = find_device(plan, holder.resource, device.uuid);
        if (planned == nullptr || planned->pool.empty()) continue;
        share = Share{planned->pool, holder.resource, device.limits.memory, device.limits.threads};
      }
      known = shares_.emplace(key, *std::move(share)).first;
    }
    if (holder.claim.empty()) continue;
    known->second.memory = device.limits.memory;
    known->second.threads = device.limits.threads;
  }
}

void Ledger::named(const std::vector<Holder>& holders, const plan::Plan& plan,
                   const std::optional<std::vector<Endpoint>>& endpoints, bool complete, MonoTime now) {
  std::vector<TenantGrant> held;
  for (const auto& holder : holders) {
    if (holder.grant.empty()) continue;
    named_[holder.grant] = now;
    unnamed_.erase(holder.grant);
    if (endpoints) learn(holder, plan, *endpoints);
    held.push_back({tenant_key(holder), holder.grant});
  }
  join_grants(shares_, held);
  if (endpoints) forget_claims(held, *endpoints);
  if (!complete) return;
  for (const auto& [key, share] : shares_) named_.try_emplace(key.first, now);  // as it was written down
  std::erase_if(named_, [&](const auto& entry) { return now - entry.second > kPatience.forget; });
  std::erase_if(shares_, [&](const auto& entry) { return !named_.contains(entry.first.first); });
}

// A claim with an endpoint may have processes, whatever else is known of it.
void Ledger::forget_claims(const std::vector<TenantGrant>& held, const std::vector<Endpoint>& endpoints) {
  std::erase_if(shares_, [&](const auto& entry) {
    const auto& grant = entry.first.first;
    const bool over = is_of_claim(entry.second) &&
                      std::ranges::find(endpoints, grant, &Endpoint::grant) == endpoints.end() &&
                      std::ranges::find(held, grant, &TenantGrant::grant) == held.end();
    if (over) named_.erase(grant);
    return over;
  });
}

bool Ledger::awaits_name(MonoTime now) const {
  return std::ranges::any_of(shares_, [&](const auto& entry) {
    if (unnamed_.contains(entry.first.first)) return true;
    const auto named = named_.find(entry.first.first);
    return entry.second.tenant.empty() && named != named_.end() && now - named->second < kPatience.named_within;
  });
}

void Ledger::pod_ended(const std::string& pool, const std::string& grant, MonoTime now) {
  seen_[{pool, grant}].ended = now;
}

std::vector<Endpoint> Ledger::over(const std::vector<Endpoint>& endpoints, MonoTime now) {
  std::set<Name> there;
  for (const auto& endpoint : endpoints) there.emplace(endpoint.pool, endpoint.grant);
  std::erase_if(seen_, [&](const auto& entry) {
    const Seen& seen = entry.second;
    return !there.contains(entry.first) && (seen.listed || seen.missing || seen.ended);
  });
  std::vector<Endpoint> over;
  for (const auto& endpoint : endpoints) {
    Seen& seen = seen_[{endpoint.pool, endpoint.grant}];
    if (listed_.contains(endpoint.grant)) {
      seen.listed = true;
      seen.missing.reset();
      continue;
    }
    if (seen.ended && now - *seen.ended <= kPatience.pod_end_counts) {
      over.push_back(endpoint);
      continue;
    }
    const bool is_believed = seen.listed && !listed_.empty();
    if (endpoint.has_clients && !is_believed) {
      seen.missing.reset();
      continue;
    }
    if (!seen.missing) {
      seen.missing = now;
    } else if (now - *seen.missing >= (is_believed ? kPatience.endpoint_confirm : kPatience.endpoint_unlisted)) {
      over.push_back(endpoint);
    }
  }
  return over;
}

Ledger::Retiring Ledger::retire(const std::vector<Endpoint>& endpoints, bool known) {
  const auto before = std::exchange(unheld_, {});
  if (!known) retired_.clear();  // a request that was under way may be lost
  if (!known || !unknown_.empty()) return {};
  Retiring retiring;
  const auto patience = listed_.empty() ? kPatience.confirm_none : kPatience.confirm;
  std::set<std::string> held;
  if (!endpoints.empty())
    for (const auto& entry : entries_)
      if (!entry.missing) held.insert(grant_id(entry.held.slots));
  for (const auto& endpoint : endpoints) {
    if (held.contains(endpoint.grant)) continue;
    const Name name{endpoint.pool, endpoint.grant};
    const auto first = before.find(name);
    const MonoTime since = unheld_[name] = first == before.end() ? asked_ : first->second;
    if (asked_ - since >= patience && retired_.insert(name).second) retiring.now.push_back(endpoint);
  }
  std::erase_if(retired_, [&](const Name& name) { return !unheld_.contains(name); });
  retiring.later = unheld_.size() > retired_.size();
  return retiring;
}

}  // namespace tranche::grants
