#include "node/observe/tenant_metrics.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace tranche::node {
namespace {

void take_limits(TenantRow& row, Bytes memory, Percent threads) {
  if (memory.value > 0) row.memory_limit = memory;
  if (threads.hundredths > 0) row.thread_limit = threads;
}

// What `other` has of the same container on the same device.
void take(TenantRow& row, const TenantRow& other) {
  row.slots += other.slots;
  if (other.memory_limit) row.memory_limit = other.memory_limit;
  if (other.thread_limit) row.thread_limit = other.thread_limit;
  if (other.figure != nullptr) row.figure = other.figure;
}

auto place_of(const TenantRow& row) {
  return std::tie(row.pod_namespace, row.pod, row.container, row.device, row.resource);
}

void add_stops(LongText& out, const std::vector<TenantRow>& rows, const std::vector<std::string>& labels) {
  metrics::FamilyText family(out, "tranche_tenant_stops_total");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto* figure = rows[i].figure;
    if (figure == nullptr) continue;
    for (const char* reason : {guard::kStopForMemory, guard::kStopOutsideMps}) {
      const auto& stops = figure->stops;
      const auto found = stops.find(reason);
      std::string with_reason = labels[i];
      with_reason.insert(with_reason.size() - 1, std::string(",reason=\"") + reason + '"');
      family.add(with_reason, found == stops.end() ? 0 : found->second);
    }
  }
}

// Of a device that is no longer planned, the share stays what it was.
double share_of(const TenantRow& row, const plan::Plan& plan, double before) {
  const auto* device = plan::find_device(plan, row.device);
  return device == nullptr || device->slots == 0 ? before
                                                 : std::min(1.0, static_cast<double>(row.slots) / device->slots);
}

}  // namespace

HeldTime HeldTime::until(MonoTime now) const {
  HeldTime later = *this;
  const double passed = std::chrono::duration<double>(now - at).count();
  later.at = now;
  later.seconds += passed;
  later.share_seconds += passed * share;
  return later;
}

TenantKey key_of(const TenantRow& row) {
  const auto text = [](std::string_view view) { return std::string(view); };
  return {text(row.pod_namespace), text(row.pod), row.container, text(row.device), text(row.resource)};
}

void keep_held_times(HeldTimes& times, const std::vector<TenantRow>& rows, const plan::Plan& plan, MonoTime now) {
  HeldTimes kept;
  for (const auto& row : rows) {
    const auto key = key_of(row);
    const auto before = times.find(key);
    HeldTime& held = kept[key];
    if (before == times.end()) {
      held.at = now;
    } else {
      held = before->second.until(now);
    }
    held.share = share_of(row, plan, held.share);
  }
  times = std::move(kept);
}

std::vector<TenantRow> tenant_rows(const Decision& decision, const guard::Figures& figures) {
  const auto shares = guard::held_shares(decision.shares);
  std::vector<TenantRow> rows;
  rows.reserve(decision.holders.size());
  for (const auto& holder : decision.holders) {
    const auto tenant = guard::tenant_in(decision.shares, holder.grant);
    for (const auto& held : holder.devices) {
      const auto of_tenant = tenant.empty() ? shares.end() : shares.find({tenant, held.uuid});
      TenantRow& row = rows.emplace_back();
      row.pod_namespace = holder.pod_namespace;
      row.pod = holder.pod;
      // A pod may have several claims with requests of one name.
      row.container = holder.claim.empty() ? holder.container : holder.claim + "/" + holder.container;
      row.device = held.uuid;
      row.resource = of_tenant == shares.end() ? holder.resource : of_tenant->second.resource;
      row.slots = held.slots;
      if (of_tenant == shares.end()) {
        take_limits(row, held.limits.memory, held.limits.threads);
        continue;
      }
      take_limits(row, of_tenant->second.memory, of_tenant->second.threads);
      if (const auto figure = figures.find({std::string(tenant), held.uuid}); figure != figures.end())
        row.figure = &figure->second;
    }
  }
  if (!std::ranges::is_sorted(rows, {}, place_of)) std::ranges::stable_sort(rows, {}, place_of);
  const auto same = [](const TenantRow& a, const TenantRow& b) { return place_of(a) == place_of(b); };
  for (auto row = rows.begin(); row != rows.end();) {
    auto next = std::next(row);
    for (; next != rows.end() && same(*row, *next); ++next) take(*row, *next);
    row = next;
  }
  rows.erase(std::unique(rows.begin(), rows.end(), same), rows.end());
  return rows;
}

LongText tenant_metrics(const Snapshot& snapshot, const guard::Figures& figures, MonoTime now) {
  using Known = std::optional<metrics::Number>;
  const auto rows = tenant_rows(snapshot, figures);
  std::vector<std::string> labels;
  labels.reserve(rows.size());
  for (const auto& row : rows)
    labels.push_back(metrics::label_text("tranche_tenant_slots",
                                         {row.pod_namespace, row.pod, row.container, row.device, row.resource}));
  LongText out;
  // One family: a value of each row that has one.
  const auto add = [&](metrics::MetricRef metric, auto value) {
    metrics::FamilyText family(out, metric);
    for (std::size_t i = 0; i < rows.size(); ++i) family.add(labels[i], value(rows[i]));
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
  add_stops(out, rows, labels);
  const auto held = [&snapshot, now](double HeldTime::* figure) {
    return [&snapshot, now, figure](const TenantRow& row) -> Known {
      const auto found = snapshot.held_times->find(key_of(row));
      return found == snapshot.held_times->end() ? Known() : Known(found->second.until(now).*figure);
    };
  };
  add("tranche_tenant_held_seconds_total", held(&HeldTime::seconds));
  add("tranche_tenant_share_held_seconds_total", held(&HeldTime::share_seconds));
  return out;
}

}  // namespace tranche::node
