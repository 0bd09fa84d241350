#include "agent/node/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "agent/node/in_force.h"
#include "agent/node/readiness.h"
#include "base/version.h"
#include "change/held.h"
#include "host/clock/clock.h"
#include "metrics/page.h"
#include "plan/slot_id.h"

namespace tranche::agent {

// The digest is that of kStyle; a test compares them.
const char* const kPagePolicy =
    "default-src 'none'; style-src 'sha256-155KEtmjvBDfYtTB4P5Zf8OzBtlGKZwwbzDom0hHvZ0='; base-uri 'none'; form-action "
    "'none'; "
    "frame-ancestors 'none'";

namespace {

constexpr const char* kStyle =
    R"css(:root{color-scheme:light dark;--ink:#1b1f24;--dim:#57606a;--line:#d0d7de;--free:#eaeef2;--bad:#b42318;--good:#1a6b34;--a:#2f6fd0;--b:#0f8a7e;--c:#9a5fc4;--d:#b8652a}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#9aa4ae;--line:#3d444d;--free:#262c34;--bad:#ff8a80;--good:#67d68a;--a:#6ea8fe;--b:#4fd1c5;--c:#c79bea;--d:#f0a66a}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);margin:0 auto;padding:12px;max-width:1200px}
h1{font-size:1.3em;margin:0}h2{font-size:1.05em;margin:1.4em 0 .3em}p{margin:.3em 0}
.dim{color:var(--dim)}.bad{color:var(--bad)}.good{color:var(--good)}
svg{width:100%;height:26px;display:block}
.f{fill:var(--free)}.t0{fill:var(--a)}.t1{fill:var(--b)}.t2{fill:var(--c)}.t3{fill:var(--d)}
.w{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.2em .7em .2em 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}meter{width:7em}bdi{overflow-wrap:anywhere})css";

constexpr int kColours = 4;

// Text of others as text: valid UTF-8 of bounded length without control characters, and nothing that HTML reads.
std::string text(std::string_view foreign) {
  std::string out;
  for (const char c : metrics::label_value(foreign)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

class Html {
 public:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
  }
  void raw(std::string_view markup) { out_ += markup; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string gib(Bytes bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes.value) / (1 << 30));
}

std::string percent(double ratio) {
  return fmt::format("{:.0f} %", ratio * 100);
}

using Rows = std::map<std::string, std::vector<const TenantRow*>>;  // by device

// One segment for each tenant, as wide as its slots.
void put_bar(Html& html, const plan::PlannedDevice& device, const std::vector<const TenantRow*>& rows) {
  std::uint32_t held = 0;
  for (const auto* row : rows) held += row->slots;
  html.add(R"(<svg viewBox="0 0 {0} 1" preserveAspectRatio="none" role="img" aria-label="{1} of {0} slots held">)"
           R"(<rect class="f" width="{0}" height="1"/>)",
           device.slots, held);
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    html.add(R"(<rect class="t{}" x="{}" width="{:.3f}" height="1"><title>{}/{}</title></rect>)", i % kColours, at,
             std::max(0.2, rows[i]->slots - 0.06), text(rows[i]->pod_namespace), text(rows[i]->pod));
    at += rows[i]->slots;
  }
  html.raw("</svg>\n");
}

void put_memory(Html& html, const TenantRow& row) {
  const auto used = row.figure ? row.figure->used : std::nullopt;
  if (!used) {
    html.add("<td class=n>{}<td>", row.memory_limit ? "not known of " + gib(*row.memory_limit) : "not known");
  } else if (!row.memory_limit) {
    html.add("<td class=n>{}<td>", gib(*used));
  } else {
    html.add(R"(<td class=n>{0} of {1}<td><meter min=0 max={3} high={4} value={2}>{0} of {1} GiB</meter>)", gib(*used),
             gib(*row.memory_limit), used->in_mib(), row.memory_limit->in_mib(), row.memory_limit->in_mib() * 95 / 100);
  }
}

std::uint64_t stops_of(const TenantRow& row) {
  std::uint64_t total = 0;
  if (row.figure)
    for (const auto& [reason, count] : row.figure->stops) total += count;
  return total;
}

void put_tenants(Html& html, const std::vector<const TenantRow*>& rows) {
  if (rows.empty()) return html.raw("<p class=dim>No container holds a slot.</p>\n");
  html.raw(
      "<div class=w><table><tr><th scope=col>container<th scope=col class=n>slots<th scope=col class=n>memory, GiB<th "
      "scope=col><span class=dim>of limit</span><th scope=col class=n>peak<th scope=col class=n>SMs, at most<th "
      "scope=col class=n>clients<th scope=col class=n>stops\n");
  for (const auto* row : rows) {
    html.add("<tr><th scope=row><bdi>{}/{}/{}</bdi><td class=n>{}", text(row->pod_namespace), text(row->pod),
             text(row->container), row->slots);
    put_memory(html, *row);
    html.add("<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}\n",
             row->figure && row->figure->peak ? gib(*row->figure->peak) : "",
             row->thread_limit ? percent(row->thread_limit->value() / 100) : "",
             row->figure && row->figure->clients ? fmt::format("{}", *row->figure->clients) : "",
             row->figure ? fmt::format("{}", stops_of(*row)) : "");
  }
  html.raw("</table></div>\n");
}

void put_activity(Html& html, const host::GpuTelemetry& gpu, MonoTime now) {
  html.raw("<p class=dim>");
  if (gpu.memory_used) html.add("memory {} GiB in use · ", gib(*gpu.memory_used));
  if (gpu.activity.sm) html.add("SMs active {} · ", percent(*gpu.activity.sm));
  if (gpu.activity.dram) html.add("memory interface {} · ", percent(*gpu.activity.dram));
  if (gpu.utilization) html.add("busy {} of the time · ", percent(*gpu.utilization));
  if (gpu.power_watts) html.add("{:.0f} W · ", *gpu.power_watts);
  if (gpu.celsius) html.add("{:.0f} °C · ", *gpu.celsius);
  html.add("read {} s ago</p>\n", std::chrono::duration_cast<std::chrono::seconds>(now - gpu.at).count());
}

void put_device(Html& html, const Snapshot& s, const plan::PlannedResource& resource, const plan::PlannedDevice& device,
                const std::vector<const TenantRow*>& rows, const std::vector<host::GpuTelemetry>& gpus, MonoTime now) {
  const auto* gpu = s.inventory ? inventory::find_gpu(*s.inventory, device.gpu_uuid) : nullptr;
  html.add("<h2>{} {} <span class=dim>{}</span></h2>\n", device.is_mig ? "MIG device" : "GPU", text(device.index),
           text(gpu == nullptr ? "" : gpu->name));
  html.add("<p class=dim><bdi>{}</bdi> · {} · {} GiB · {} slots, {}</p>\n", text(device.uuid), text(resource.name),
           gib(device.memory), device.slots, config::to_string(change::means_of(device).strategy));
  if (const auto reason = advertise::reason_unhealthy(device, s.faults))
    html.add("<p class=bad>unhealthy: {}</p>\n", text(*reason));
  const auto measured = std::ranges::find(gpus, device.gpu_uuid, &host::GpuTelemetry::uuid);
  if (measured != gpus.end()) put_activity(html, *measured, now);
  put_bar(html, device, rows);
  put_tenants(html, rows);
}

void put_list(Html& html, const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  html.add("<h2>{}</h2>\n<ul>", title);
  for (const auto& line : lines) html.add("<li><bdi>{}</bdi>", text(line));
  html.raw("</ul>\n");
}

std::vector<std::string> waiting(const Snapshot& s) {
  std::vector<std::string> lines;
  for (const auto& step : s.change)
    if (!step.waits_for.empty()) lines.push_back(change::to_string(step));
  return lines;
}

std::string party(const FaultParty& party) {
  return party.holder.empty() ? "a process of no known container" : party.holder;
}

// Newest first; of the guard, of deletions, of faults.
std::vector<std::string> stops(const Snapshot& s) {
  std::vector<std::pair<WallTime, std::string>> dated;
  for (const auto& act : s.guard.acts)
    dated.emplace_back(
        act.at, fmt::format("{} ({}): {}, {} of {} GiB", act.what, act.outcome,
                            act.holder.empty() ? "no known container" : act.holder, gib(act.sum), gib(act.limit)));
  for (const auto& drain : s.stopping.recent)
    dated.emplace_back(s.taken_wall - (s.taken - drain.at),
                       fmt::format("stop of clients ({}): {}, {}", drain.reason, drain.pod, drain.outcome));
  for (const auto& fault : s.told_faults)
    dated.emplace_back(WallTime{std::chrono::milliseconds(fault.at_ms)},
                       fmt::format("fault ({}) of {}: by {}, {} hit", fault.kind, fault.pool, party(fault.culprit),
                                   fault.victims.size()));
  std::ranges::stable_sort(dated, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (const auto& [at, line] : dated) lines.push_back(host::utc_text(at).substr(0, 19) + "Z " + line);
  return lines;
}

std::vector<std::string> problems(const Snapshot& s) {
  std::vector<std::string> lines;
  for (const auto* list : {&s.config.problems, &s.plan_problems})
    for (const auto& problem : *list) lines.push_back(to_string(problem));
  for (const auto* line : {&s.driver_problem, &s.pools.problem, &s.holdings_problem, &s.cdi_problem})
    if (!line->empty()) lines.push_back(*line);
  for (const auto& left : s.plan.left_out) lines.push_back(left.what + ": " + left.why);
  lines.insert(lines.end(), s.guard.not_in_force.begin(), s.guard.not_in_force.end());
  return lines;
}

void put_configuration(Html& html, const Snapshot& s) {
  html.add("<h2>Configuration in force</h2>\n<p>{}{}{} · sharing: {}</p>\n",
           s.config.last_good      ? "the last good one, because the newest is refused"
           : s.config.path.empty() ? "the defaults"
                                   : "of a file",
           s.config.name.empty() ? "" : ", named ", text(s.config.name),
           config::to_string(s.config.config.sharing.strategy));
  const auto rows = in_force(s);
  if (rows.empty()) return;
  html.raw(
      "<div class=w><table><tr><th scope=col>promise<th scope=col>enforced<th scope=col>by<th scope=col>what is "
      "missing\n");
  for (const auto& row : rows)
    html.add("<tr><th scope=row>{}<td>{}<td>{}<td>{}\n", text(row.promise), text(row.state), text(row.by),
             text(row.why));
  html.raw("</table></div>\n");
}

}  // namespace

std::string html_page(const Snapshot& s, const guard::Figures& figures, const std::vector<host::GpuTelemetry>& gpus,
                      MonoTime now) {
  Html html;
  const Readiness ready = readiness(s);
  const auto tenants = tenant_rows(s, figures);
  Rows rows;
  for (const auto& row : tenants) rows[row.device].push_back(&row);
  html.add(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<meta http-equiv=refresh content=10><title>Tranche {0}</title><style>{1}</style></head><body>\n<main>"
      "<h1>{2}</h1>\n<p class={3}>{4}: {5}</p>\n<p class=dim>Tranche {0} · driver {6} · {7}Z</p>\n",
      kVersion, kStyle, s.cluster.node.empty() ? "GPUs of this node" : "GPUs of " + text(s.cluster.node),
      ready.ready ? "good" : "bad", ready.ready ? "ready" : "not ready", text(ready.reason),
      s.inventory ? text(s.inventory->driver_version) : "none", host::utc_text(s.taken_wall).substr(0, 19));
  put_list(html, "Problems", problems(s));
  put_list(html, "Waiting", waiting(s));
  for (const auto& resource : s.plan.resources)
    for (const auto& device : resource.devices) put_device(html, s, resource, device, rows[device.uuid], gpus, now);
  put_list(html, "Recent stops and faults", stops(s));
  put_configuration(html, s);
  html.raw("</main></body></html>\n");
  return html.take();
}

}  // namespace tranche::agent
