#include "node/observe/tenant_metrics.h"

#include <algorithm>

namespace tranche::node {

HeldTime HeldTime::until(MonoTime now) const {
  HeldTime later = *this;
  const double passed = std::chrono::duration<double>(now - at).count();
  later.at = now;
  later.seconds += passed;
  later.share_seconds += passed * share;
  return later;
}

void keep_held_times(HeldTimes& times, const TenantRows& rows, const plan::Plan& plan, MonoTime now) {
  HeldTimes kept;
  for (const auto& [key, row] : rows) {
    const auto before = times.find(key);
    HeldTime& held = kept[key] = before == times.end() ? HeldTime{.at = now} : before->second.until(now);
    // Of a device that is no longer planned, the share stays what it was.
    if (const auto* device = plan::find_device(plan, key.device); device != nullptr && device->slots > 0)
      held.share = std::min(1.0, static_cast<double>(row.slots) / device->slots);
  }
  times = std::move(kept);
}

TenantRows tenant_rows(const Decision& decision, const guard::Figures& figures) {
  const auto tenants = guard::tenants_of(decision.shares);
  TenantRows rows;
  for (const auto& holder : decision.holders) {
    const auto name = guard::tenant_of(tenants, holder.grant);
    const auto tenant = tenants.find(name);
    // A pod may have several claims with requests of one name.
    const auto container = holder.claim.empty() ? holder.container : holder.claim + "/" + holder.container;
    for (const auto& held : holder.devices) {
      grants::Share share{
          .pool = {}, .resource = holder.resource, .memory = held.limits.memory, .threads = held.limits.threads};
      const guard::Figure* seen = nullptr;
      if (tenant != tenants.end() && tenant->second.devices.contains(held.uuid)) {
        share = tenant->second.devices.at(held.uuid);
        if (const auto figure = figures.find({name, held.uuid}); figure != figures.end()) seen = &figure->second;
      }
      TenantRow& row = rows[{holder.pod_namespace, holder.pod, container, held.uuid, share.resource}];
      row.slots += held.slots;
      if (share.memory.value > 0) row.memory_limit = share.memory;
      if (share.threads.hundredths > 0) row.thread_limit = share.threads;
      if (seen != nullptr) row.figure = seen;
    }
  }
  for (auto& [key, row] : rows)
    if (const auto held = decision.held_times->find(key); held != decision.held_times->end()) row.held = &held->second;
  return rows;
}

LongText tenant_metrics(const Snapshot& snapshot, const guard::Figures& figures, MonoTime now) {
  using Known = std::optional<metrics::Number>;
  const auto rows = tenant_rows(snapshot, figures);
  std::vector<std::pair<std::string, const TenantRow*>> labelled;
  labelled.reserve(rows.size());
  for (const auto& [key, row] : rows)
    labelled.emplace_back(metrics::label_text("tranche_tenant_slots",
                                              {key.pod_namespace, key.pod, key.container, key.device, key.resource}),
                          &row);
  LongText out;
  // One family: a value of each row that has one.
  const auto add = [&](metrics::MetricRef metric, auto value) {
    metrics::FamilyText family(out, metric);
    for (const auto& [labels, row] : labelled) family.add(labels, value(*row));
  };
  const auto of_figure = [](auto field) {
    return [field](const TenantRow& row) -> Known { return row.figure ? Known(row.figure->*field) : Known(); };
  };
  add("tranche_tenant_slots", [](const TenantRow& row) -> Known { return row.slots; });
  add("tranche_tenant_memory_limit_bytes", [](const TenantRow& row) -> Known { return row.memory_limit; });
  add("tranche_tenant_sm_limit_ratio", [](const TenantRow& row) -> Known {
    return row.thread_limit ? Known(row.thread_limit->value() / 100) : Known();
  });
  add("tranche_tenant_memory_used_bytes", of_figure(&guard::Figure::used));
  add("tranche_tenant_memory_peak_bytes", of_figure(&guard::Figure::peak));
  add("tranche_tenant_clients", of_figure(&guard::Figure::clients));
  add("tranche_tenant_over_limit_seconds_total", [now](const TenantRow& row) -> Known {
    if (!row.figure || !row.memory_limit) return {};
    return std::chrono::duration<double>(guard::time_over(*row.figure, now)).count();
  });
  {
    metrics::FamilyText family(out, "tranche_tenant_stops_total");
    for (const auto& [labels, row] : labelled) {
      if (row->figure == nullptr) continue;
      for (const char* reason : {guard::kStopForMemory, guard::kStopOutsideMps}) {
        const auto found = row->figure->stops.find(reason);
        std::string with_reason = labels;
        with_reason.insert(with_reason.size() - 1, std::string(",reason=\"") + reason + '"');
        family.add(with_reason, found == row->figure->stops.end() ? 0 : found->second);
      }
    }
  }
  const auto held = [now](double HeldTime::* figure) {
    return [now, figure](const TenantRow& row) -> Known {
      return row.held ? Known(row.held->until(now).*figure) : Known();
    };
  };
  add("tranche_tenant_held_seconds_total", held(&HeldTime::seconds));
  add("tranche_tenant_share_held_seconds_total", held(&HeldTime::share_seconds));
  return out;
}

}  // namespace tranche::node
