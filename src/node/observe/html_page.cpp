#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/version.h"
#include "node/observe/tenant_metrics.h"
#include "node/reports.h"
#include "observe/html/html.h"
#include "observe/why/why.h"
#include "os/clock/clock.h"

namespace tranche::node {

namespace {

using html::Html;
using html::text;

constexpr int kColours = 4;
constexpr double kGap = 0.003;  // between tenants, of the width of the bar

constexpr int kReloadSeconds = 10;

std::string percent(double ratio) {
  return fmt::format("{:.0f} %", ratio * 100);
}

using Rows = std::vector<const TenantRows::value_type*>;  // of a device

// One segment for each tenant, as wide as its slots.
void put_bar(Html& html, const plan::PlannedDevice& device, const Rows& rows) {
  std::uint32_t held = 0;
  for (const auto* row : rows) held += row->second.slots;
  html.add(R"(<svg viewBox="0 0 {0} 1" preserveAspectRatio="none" role="img" aria-label="{1} of {0} slots held">)"
           R"(<rect class="f" width="{0}" height="1"/>)",
           device.slots, held);
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [key, row] = *rows[i];
    const double width = std::max(row.slots * 0.5, row.slots - device.slots * kGap);
    html.add(R"(<rect class="t{}" x="{}" width="{:.3f}" height="1"><title>{}/{}</title></rect>)", i % kColours, at,
             width, text(key.pod_namespace), text(key.pod));
    at += row.slots;
  }
  html.raw("</svg>\n");
}

void put_memory(Html& html, const TenantRow& row, const std::string& pod) {
  const auto used = row.figure ? row.figure->used : std::nullopt;
  html.raw("<td class=n>");
  if (!used) {
    html.raw("not known");
    if (row.memory_limit) html.add(" of {}", row.memory_limit->in_mib());
    return html.raw("<td>");
  }
  const auto uses = used->in_mib();
  if (!row.memory_limit) return html.add("{}<td>", uses);
  const auto limit = row.memory_limit->in_mib();
  html.add(R"({0} of {1}<td><meter aria-label="memory of {2}" min=0 max={1} high={3} value={0}>{0} of {1} MiB</meter>)",
           uses, limit, pod, limit * 95 / 100);
}

std::uint64_t stops_of(const TenantRow& row) {
  std::uint64_t total = 0;
  if (row.figure)
    for (const auto& [reason, count] : row.figure->stops) total += count;
  return total;
}

void put_tenants(Html& html, const std::string& index, const Rows& rows) {
  if (rows.empty()) return html.raw("<p class=dim>No container holds a slot.</p>\n");
  html.table("containers on " + index, {"container", "#slots", "#memory, MiB", "<span class=dim>of limit</span>",
                                        "#peak", "#SMs, at most", "#clients", "#stops"});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [key, row] = *rows[i];
    const std::string pod = text(key.pod);
    html.add(
        "<tr><th scope=row><svg class=k aria-hidden=true><rect class=t{} width=99 height=99 /></svg> "
        "<bdi>{}/{}/{}</bdi><td class=n>{}",
        i % kColours, text(key.pod_namespace), pod, text(key.container), row.slots);
    put_memory(html, row, pod);
    html.raw("<td class=n>");
    if (row.figure && row.figure->peak) html.add("{}", row.figure->peak->in_mib());
    html.add("<td class=n>{}<td class=n>", row.thread_limit ? percent(row.thread_limit->value() / 100) : "");
    if (row.figure && row.figure->clients) html.add("{}", *row.figure->clients);
    html.raw("<td class=n>");
    if (row.figure) html.add("{}", stops_of(row));
    html.raw("\n");
  }
  html.end_table();
}

void put_activity(Html& html, const gpu::GpuTelemetry& gpu, MonoTime now) {
  html.raw("<p class=dim>");
  if (gpu.memory_used) html.add("memory {} MiB in use · ", gpu.memory_used->in_mib());
  if (gpu.activity.sm) html.add("SMs active {} · ", percent(*gpu.activity.sm));
  if (gpu.activity.dram) html.add("memory interface {} · ", percent(*gpu.activity.dram));
  if (gpu.utilization) html.add("busy {} of the time · ", percent(*gpu.utilization));
  if (gpu.power_watts) html.add("{:.0f} W · ", *gpu.power_watts);
  if (gpu.celsius) html.add("{:.0f} °C · ", *gpu.celsius);
  html.add("read {} s ago</p>\n", std::chrono::duration_cast<std::chrono::seconds>(now - gpu.at).count());
}

// As a sentence after the reason; "": there is nothing to do.
std::string remedy(const gpu::Unhealthy& fault) {
  const std::string what = why::remedy_of(gpu::to_string(fault.cause), fault.why);
  return what.empty() ? "" : ". What to do: " + what;
}

void put_device(Html& html, const Snapshot& s, const plan::PlannedResource& resource, const plan::PlannedDevice& device,
                const Rows& rows, const std::vector<gpu::GpuTelemetry>& gpus, MonoTime now) {
  const auto* gpu = s.inventory ? gpu::find_gpu(*s.inventory, device.gpu_uuid) : nullptr;
  html.add("<h2>{} {} <span class=dim>{}</span></h2>\n", device.is_mig ? "MIG device" : "GPU", text(device.index),
           text(gpu == nullptr ? "" : gpu->name));
  html.add("<p class=dim><bdi>{}</bdi> · {} · {} MiB · {} slots, {}</p>\n", text(device.uuid), text(resource.name),
           device.memory.in_mib(), device.slots, config::to_string(grants::mode_of(device).strategy));
  if (const auto fault = plan::fault_of(device, s.faults))
    html.add("<p class=bad>unhealthy: {}{}</p>\n", text(fault->why), text(remedy(*fault)));
  const auto measured = std::ranges::find(gpus, device.gpu_uuid, &gpu::GpuTelemetry::uuid);
  if (measured != gpus.end()) put_activity(html, *measured, now);
  put_bar(html, device, rows);
  put_tenants(html, text(device.index), rows);
}

std::vector<std::string> waiting(const Snapshot& s) {
  std::vector<std::string> lines;
  for (const auto& step : s.change)
    if (step.waits()) lines.push_back(grants::to_string(step));
  return lines;
}

// Newest first; of the guard, of faults.
std::vector<std::string> stops(const Snapshot& s) {
  std::vector<std::pair<WallTime, std::string>> dated;
  for (const auto& act : s.guard.acts)
    dated.emplace_back(act.at, fmt::format("{} ({}): {}, {} of {} MiB", guard::to_string(act.what), act.outcome,
                                           act.holder.empty() ? "no known container" : act.holder, act.sum.in_mib(),
                                           act.limit.in_mib()));
  for (const auto& fault : s.reported_faults) {
    const auto& culprit = fault.culprit.holder;
    dated.emplace_back(
        WallTime{std::chrono::milliseconds(fault.at_ms)},
        fmt::format("fault ({}) of {}: by {}, {} hit", fault.kind, fault.pool,
                    culprit.empty() ? "a process of no known container" : culprit, fault.victims.size()));
  }
  std::ranges::stable_sort(dated, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (const auto& [at, line] : dated) lines.push_back(os::utc_text(at).substr(0, 19) + "Z " + line);
  return lines;
}

std::vector<std::string> problems(const Snapshot& s) {
  std::vector<std::string> lines;
  for (const auto* list : {&s.config.problems, &s.plan_problems})
    for (const auto& problem : *list) lines.push_back(to_string(problem));
  for (const auto* line : {&s.driver_problem, &s.pools.problem, &s.holdings_problem, &s.cdi_problem})
    if (!line->empty()) lines.push_back(*line);
  if (!s.loop.cpu_problem.empty()) lines.push_back("tranche node: " + s.loop.cpu_problem);
  if (!s.pools.cpu_problem.empty()) lines.push_back("tranche mps: " + s.pools.cpu_problem);
  for (const auto& left : s.plan.left_out) lines.push_back(left.what + ": " + left.why);
  lines.insert(lines.end(), s.guard.not_in_force.begin(), s.guard.not_in_force.end());
  return lines;
}

void put_configuration(Html& html, const Snapshot& s) {
  html.add("<h2>Configuration in effect</h2>\n<p>{}{}{} · sharing: {}</p>\n",
           s.config.last_good      ? "the last good one, because the newest is refused"
           : s.config.path.empty() ? "the defaults"
                                   : "of a file",
           s.config.name.empty() ? "" : ", named ", text(s.config.name),
           config::to_string(s.config.config.sharing.strategy));
  const auto rows = in_force(s);
  if (rows.empty()) return;
  html.table("what is enforced", {"promise", "enforced", "by", "what is missing"});
  for (const auto& row : rows)
    html.add("<tr><th scope=row>{}<td>{}<td class=l>{}<td class=l>{}\n", text(row.what), text(row.state), text(row.by),
             text(row.why));
  html.end_table();
}

}  // namespace

LongText html_page(const Snapshot& s, const guard::Figures& figures, const std::vector<gpu::GpuTelemetry>& gpus,
                   MonoTime now, bool reload) {
  Html html;
  const auto ready = readiness(s);
  const auto tenants = tenant_rows(s, figures);
  std::map<std::string_view, Rows> rows;
  for (const auto& row : tenants) rows[row.first.device].push_back(&row);
  html::begin(html, std::string("Tranche ") + kVersion, reload ? kReloadSeconds : 0);
  html.add("<h1>{}</h1>\n<p class={}>{}: {}</p>\n<p class=dim>Tranche {} · driver {} · {}Z · {}</p>\n",
           s.cluster.node.empty() ? "GPUs of this node" : "GPUs of " + text(s.cluster.node),
           ready.ready ? "good" : "bad", ready.ready ? "ready" : "not ready", text(ready.message), kVersion,
           s.inventory ? text(s.inventory->driver_version) : "none", os::utc_text(s.taken_wall).substr(0, 19),
           reload ? "<a href=\"/\">stop reloading</a>" : "<a href=\"/live\">reload every 10 s</a>");
  html.list("Problems", problems(s));
  html.list("Waiting", waiting(s));
  for (const auto& resource : s.plan.resources)
    for (const auto& device : resource.devices) put_device(html, s, resource, device, rows[device.uuid], gpus, now);
  html.list("Recent stops and faults", stops(s));
  put_configuration(html, s);
  html::end(html);
  return html.take();
}

}  // namespace tranche::node
