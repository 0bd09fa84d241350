#include "observe/live/tenant_metrics.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "observe/metrics/page.h"
#include "programs/node/reports.h"

namespace tranche::agent {
namespace {

using metrics::Metric;

std::map<std::string, std::string> tenants_by_grant(const guard::Tenants& tenants) {
  std::map<std::string, std::string> by_grant;
  for (const auto& [name, tenant] : tenants)
    for (const auto& grant : tenant.grants) by_grant[grant] = name;
  return by_grant;
}

void take_limits(TenantRow& row, Bytes memory, std::optional<Percent> threads) {
  if (memory.value > 0) row.memory_limit = memory;
  if (threads && threads->hundredths > 0) row.thread_limit = threads;
}

double whole(Bytes b) {
  return static_cast<double>(b.value);
}

// One family: a value of each row that has one.
template <class Value>
void add_family(std::string& out, const Metric& metric, const std::vector<TenantRow>& rows,
                const std::vector<std::string>& labels, Value value) {
  bool headed = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<double> known = value(rows[i]);
    if (!known) continue;
    if (!std::exchange(headed, true)) metrics::add_heading(out, metric);
    metrics::add_sample(out, metric, labels[i], *known);
  }
}

void add_stops(std::string& out, const std::vector<TenantRow>& rows, const std::vector<std::string>& labels) {
  bool headed = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& figure = rows[i].figure;
    if (!figure) continue;
    for (const char* reason : {guard::kStopForMemory, guard::kStopOutsideMps}) {
      if (!std::exchange(headed, true)) metrics::add_heading(out, metrics::kTenantStops);
      const auto& stops = figure->stops;
      const auto found = stops.find(reason);
      std::string with_reason = labels[i];
      with_reason.insert(with_reason.size() - 1, std::string(",reason=\"") + reason + '"');
      metrics::add_sample(out, metrics::kTenantStops, with_reason,
                          found == stops.end() ? 0 : static_cast<double>(found->second));
    }
  }
}

}  // namespace

std::vector<TenantRow> tenant_rows(const Snapshot& snapshot, const guard::Figures& figures) {
  const auto tenants = guard::tenants_of(snapshot.shares);
  const auto by_grant = tenants_by_grant(tenants);
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, TenantRow> rows;
  for (const Holder& holder : holders(snapshot)) {
    const auto name = by_grant.find(holder.grant);
    const auto* tenant = name == by_grant.end() ? nullptr : &tenants.at(name->second);
    // A pod may have several claims with requests of one name.
    const std::string container = holder.claim.empty() ? holder.container : holder.claim + "/" + holder.container;
    for (const auto& held : holder.devices) {
      const bool of_tenant = tenant != nullptr && tenant->devices.contains(held.uuid);
      const std::string& resource = of_tenant ? tenant->devices.at(held.uuid).resource : holder.resource;
      TenantRow& row = rows[{holder.pod_namespace, holder.pod, container, held.uuid, resource}];
      row.pod_namespace = holder.pod_namespace;
      row.pod = holder.pod;
      row.container = container;
      row.device = held.uuid;
      row.resource = resource;
      row.slots += held.slots;
      row.grant = name == by_grant.end() ? holder.grant : name->second;
      if (of_tenant) {
        take_limits(row, tenant->devices.at(held.uuid).memory, tenant->devices.at(held.uuid).threads);
      } else {
        take_limits(row, held.limits.memory, held.limits.threads);
      }
      if (const auto figure = figures.find({row.grant, held.uuid}); of_tenant && figure != figures.end())
        row.figure = figure->second;
    }
  }
  std::vector<TenantRow> list;
  list.reserve(rows.size());
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

std::string tenant_metrics(const Snapshot& snapshot, const guard::Figures& figures, MonoTime now) {
  using Known = std::optional<double>;
  const auto rows = tenant_rows(snapshot, figures);
  std::vector<std::string> labels;
  labels.reserve(rows.size());
  for (const auto& row : rows)
    labels.push_back(metrics::label_text(metrics::kTenantSlots,
                                         {row.pod_namespace, row.pod, row.container, row.device, row.resource}));
  std::string out;
  out.reserve(rows.size() * 1500);
  add_family(out, metrics::kTenantSlots, rows, labels, [](const TenantRow& row) -> Known { return row.slots; });
  add_family(out, metrics::kTenantMemoryLimit, rows, labels, [](const TenantRow& row) -> Known {
    return row.memory_limit ? Known(whole(*row.memory_limit)) : Known();
  });
  add_family(out, metrics::kTenantSmLimit, rows, labels, [](const TenantRow& row) -> Known {
    return row.thread_limit ? Known(row.thread_limit->value() / 100) : Known();
  });
  add_family(out, metrics::kTenantMemoryUsed, rows, labels, [](const TenantRow& row) -> Known {
    return row.figure && row.figure->used ? Known(whole(*row.figure->used)) : Known();
  });
  add_family(out, metrics::kTenantMemoryPeak, rows, labels, [](const TenantRow& row) -> Known {
    return row.figure && row.figure->peak ? Known(whole(*row.figure->peak)) : Known();
  });
  add_family(out, metrics::kTenantClients, rows, labels, [](const TenantRow& row) -> Known {
    return row.figure && row.figure->clients ? Known(*row.figure->clients) : Known();
  });
  add_family(out, metrics::kTenantOver, rows, labels, [now](const TenantRow& row) -> Known {
    if (!row.figure || !row.memory_limit) return {};
    return std::chrono::duration<double>(guard::time_over(*row.figure, now)).count();
  });
  add_stops(out, rows, labels);
  const auto held = [&snapshot, now](const TenantRow& row, double HeldTime::* figure) -> Known {
    const auto found = snapshot.held_times.find(key_of(row));
    return found == snapshot.held_times.end() ? Known() : Known(found->second.until(now).*figure);
  };
  add_family(out, metrics::kTenantHeld, rows, labels, [&](const TenantRow& r) { return held(r, &HeldTime::seconds); });
  add_family(out, metrics::kTenantShareHeld, rows, labels,
             [&](const TenantRow& r) { return held(r, &HeldTime::share_seconds); });
  return out;
}

}  // namespace tranche::agent
