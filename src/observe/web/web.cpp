#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <set>

#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/version.h"
#include "config/model.h"
#include "observe/html/html.h"
#include "observe/web/web.h"

namespace tranche::web {
namespace {

using html::Html;
using html::text;

constexpr std::size_t kMostNodesNamed = 8;
constexpr double kGap = 0.01;  // between tenants, of the width of the bar

// "0" of "0:1": MIG devices stand in the column of their GPU.
std::string gpu_of(const std::string& index) {
  return index.substr(0, index.find(':'));
}

std::string state_of(const view::Device& device) {
  return fmt::format("{} of {} held{}", device.held(), device.slots.size(), device.healthy ? "" : ", unhealthy");
}

void put_bar(Html& html, const view::Device& device) {
  const auto width = device.slots.size();
  html.add(R"(<svg viewBox="0 0 {0} 1" preserveAspectRatio="none" role="img" aria-label="{1}">)"
           R"(<rect class="{2}" width="{0}" height="1"/>)",
           std::max<std::size_t>(width, 1), text(state_of(device)), device.healthy ? "f" : "x");
  std::size_t at = 0;
  for (const auto& tenant : device.tenants) {
    const double wide = std::max(tenant.slots * 0.5, tenant.slots - static_cast<double>(width) * kGap);
    html.add(R"(<rect class="t0" x="{}" width="{:.3f}" height="1"><title>{}</title></rect>)", at, wide,
             text(tenant.name));
    at += tenant.slots;
  }
  html.raw("</svg>");
}

void put_map(Html& html, const std::vector<Node>& nodes) {
  std::set<std::pair<std::size_t, std::string>> columns;  // "2" before "10"
  for (const auto& node : nodes)
    for (const auto& device : node.devices) columns.emplace(gpu_of(device.index).size(), gpu_of(device.index));
  html.raw("<h2>GPUs</h2>\n<p class=dim>A bar is a GPU or MIG device; the filled part is held.</p>\n");
  std::vector<std::string> headings{"node"};
  for (const auto& [digits, gpu] : columns) headings.push_back("GPU " + text(gpu));
  html.table("nodes and GPUs", headings);
  for (const auto& node : nodes) {
    html.add("<tr><th scope=row><bdi>{}</bdi>", text(node.name));
    if (!node.problem.empty()) {
      html.add("<td class=bad colspan={}>not known: {}\n", std::max<std::size_t>(columns.size(), 1),
               text(node.problem));
      continue;
    }
    for (const auto& [digits, gpu] : columns) {
      html.raw("<td class=m>");
      for (const auto& device : node.devices) {
        if (gpu_of(device.index) != gpu) continue;
        put_bar(html, device);
        html.add("<span class={}>{}</span><br>", device.healthy ? "dim" : "bad", text(state_of(device)));
      }
    }
    html.raw("\n");
  }
  html.end_table();
}

void put_capacity(Html& html, const Resources& all) {
  html.raw("<h2>Capacity</h2>\n");
  if (all.empty()) return html.raw("<p class=dim>No node reports a GPU.</p>\n");
  html.table("capacity", {"resource", "#slots", "#held", "#unhealthy", "#free", "#on empty GPUs",
                          "#on GPUs that are partly held", "#largest request that fits"});
  for (const auto& [name, r] : all)
    html.add(
        "<tr><th scope=row>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td "
        "class=n>{}<td class=n>{}\n",
        text(name), r.slots, r.held, r.unhealthy, r.free, r.whole, r.free - r.whole, r.largest);
  html.end_table();
}

std::string size_text(const Fit& fit) {
  const char* whole = !fit.whole ? "" : fit.request == 1 ? " (a whole GPU)" : " (all of a GPU)";
  return fmt::format("{}{}", fit.request, whole);
}

// "gpu-node-1: 2, gpu-node-2: 1", those that take most first.
std::string nodes_text(const Fit& fit) {
  std::vector<std::pair<std::string, std::uint64_t>> nodes(fit.by_node.begin(), fit.by_node.end());
  std::ranges::stable_sort(nodes, std::ranges::greater(), [](const auto& node) { return node.second; });
  auto text = join(nodes | std::views::take(kMostNodesNamed), ", ",
                   [](const auto& node) { return fmt::format("{}: {}", node.first, node.second); });
  if (nodes.size() > kMostNodesNamed) text += fmt::format(" and {} more", nodes.size() - kMostNodesNamed);
  return text.empty() ? "none" : text;
}

void put_fits(Html& html, const Resources& all) {
  if (std::ranges::all_of(all, [](const auto& each) { return each.second.fits.empty(); })) return;
  html.raw(
      "<h2>What would fit</h2>\n<p class=dim>More containers of one size, placed one after another as kubelet and the "
      "node agents do, until one is refused. CPU, memory, taints and quotas are not considered. Free slots that are "
      "left over are stranded for that size.</p>\n");
  html.table("what would fit", {"resource", "#slots of a container", "#GPU memory of it", "#containers that fit",
                                "#stranded slots", "nodes"});
  for (const auto& [name, resource] : all)
    for (const auto& fit : resource.fits)
      html.add("<tr><th scope=row>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td><bdi>{}</bdi>\n",
               text(name), size_text(fit), fit.memory_mib == 0 ? "" : fmt::format("{} MiB", fit.memory_mib),
               fit.containers, fit.stranded, text(nodes_text(fit)));
  html.end_table();
}

// All of them: a browser finds a name on its page.
void put_pods(Html& html, const std::vector<Node>& nodes) {
  html.raw("<h2>Pods</h2>\n");
  html.table("pods", {"pod", "node", "GPU", "#slots", "#memory used", "#memory limit"});
  for (const auto& node : nodes)
    for (const auto& device : node.devices)
      for (const auto& tenant : device.tenants)
        html.add("<tr><th scope=row><bdi>{}</bdi><td><bdi>{}</bdi><td>{}<td class=n>{}<td class=n>{}<td class=n>{}\n",
                 text(tenant.name), text(node.name), text(device.index), tenant.slots,
                 tenant.used_mib ? fmt::format("{} MiB", *tenant.used_mib) : "not known",
                 tenant.limit_mib == 0 ? "none" : fmt::format("{} MiB", tenant.limit_mib));
  html.end_table();
}

std::vector<std::string> problems_of(const Shown& shown) {
  std::vector<std::string> lines;
  if (!shown.problem.empty()) lines.push_back(shown.problem);
  for (const auto& node : shown.nodes) {
    if (!node.problem.empty()) lines.push_back(node.name + " is not known: " + node.problem);
    for (const auto& device : node.devices)
      if (!device.healthy) lines.push_back(fmt::format("{} GPU {}: {}", node.name, device.index, device.reason));
  }
  return lines;
}

constexpr std::size_t kMostSizes = 8;

// The plan of each resource, as far as the agent's page shows it.
std::map<std::string, simulate::Offer> offers_of(const nlohmann::json& status,
                                                 const std::vector<view::Device>& devices) {
  std::map<std::string, simulate::Offer> offers;
  for (const auto& from : devices) {
    auto& offer = offers[from.resource];
    offer.resource.name = from.resource;
    offer.policy = enum_of<config::AllocationPolicy>(text_at(member_at(status, "config"), "allocationPolicy"))
                       .value_or(offer.policy);
    offer.resource.sharing = enum_of<config::SharingStrategy>(from.sharing).value_or(offer.resource.sharing);
    auto& device = offer.resource.devices.emplace_back();
    device.uuid = device.gpu_uuid = from.uuid;
    device.index = from.index;
    device.is_mig = device.index.find(':') != std::string::npos;
    device.memory = mib(from.memory_mib);
    device.sm_count = from.sm_count;
    device.share.memory = mib(from.slot_mib);
    device.pool = from.pool;
    device.slots = static_cast<std::uint32_t>(from.slots.size());
    device.replicated = from.sharing != to_string(config::SharingStrategy::kNone);
    std::size_t at = 0;
    for (auto& id : plan::slot_ids(device))
      if (!from.healthy || from.slots[at++] >= 0) offer.taken.insert(std::move(id));
  }
  for (auto& [name, offer] : offers) {
    const auto& resource = entry_at(status, "resources", "name", name);
    offer.resource.one_slot_per_request = truth_at(resource, "oneSlotPerRequest");
    offer.resource.split =
        enum_of<config::SplitPolicy>(text_at(resource, "split")).value_or(config::SplitPolicy::kReject);
  }
  return offers;
}

using Offers = std::vector<std::pair<const Node*, const simulate::Offer*>>;  // of one resource

std::set<std::uint64_t> sizes_of(const Offers& offers) {
  std::set<std::uint64_t> sizes{1, 2, 3};
  std::uint64_t most = 0;
  for (const auto& [node, offer] : offers) {
    std::uint64_t slots = 0;
    for (const auto& device : offer->resource.devices) {
      slots += device.slots;
      if (sizes.size() < kMostSizes) sizes.insert(device.slots);
    }
    most = std::max(most, slots);
  }
  for (std::uint64_t size = 4; size <= most && sizes.size() < kMostSizes; size *= 2) sizes.insert(size);
  return sizes;
}

// What the nodes take of this size; nothing: they would not even if they were empty.
std::optional<Fit> fit_of(const Offers& offers, std::uint64_t size) {
  Fit fit;
  fit.request = size;
  bool possible = false;
  std::set<std::uint64_t> memory;  // of a container on each GPU; the share of a larger request is not of one GPU
  for (const auto& [node, offer] : offers) {
    const auto more = simulate::more_that_fit(*offer, size);
    possible = possible || more.possible;
    if (more.containers > 0) fit.by_node[node->name] += more.containers;
    fit.containers += more.containers;
    for (const auto& device : offer->resource.devices) {
      fit.whole = fit.whole || device.slots == size;
      if (size <= device.slots)
        memory.insert(size == device.slots ? device.memory.in_mib() : device.share.memory.in_mib() * size);
    }
  }
  if (memory.size() == 1) fit.memory_mib = *memory.begin();
  return possible ? std::optional(fit) : std::nullopt;
}

}  // namespace

std::string page(const Shown& shown) {
  Html html;
  const auto silent =
      static_cast<std::size_t>(std::ranges::count_if(shown.nodes, [](const Node& n) { return !n.problem.empty(); }));
  html::begin(html, "Tranche: GPUs of the cluster");
  html.add("<h1>GPUs of the cluster</h1>\n<p class=dim>{} · {} {}, {} not known · read {}Z · Tranche {}</p>\n",
           text(shown.server), shown.nodes.size(), shown.nodes.size() == 1 ? "node agent" : "node agents", silent,
           text(shown.when), kVersion);
  html.list("Problems", problems_of(shown));
  put_capacity(html, shown.resources);
  if (!shown.nodes.empty()) put_map(html, shown.nodes);
  put_fits(html, shown.resources);
  put_pods(html, shown.nodes);
  html::end(html);
  return html.take().str();
}

std::string to_json(const Shown& shown) {
  using Json = nlohmann::ordered_json;
  Json nodes = Json::array(), resources = Json::object();
  for (const auto& node : shown.nodes) {
    Json devices = Json::array();
    for (const auto& device : node.devices) {
      devices.push_back(view::to_json(device));
      auto& tenants = devices.back()["tenants"] = Json::array();
      for (const auto& tenant : device.tenants) tenants.push_back(view::to_json(tenant));
    }
    nodes.push_back({{"name", node.name}, {"problem", node.problem}, {"devices", std::move(devices)}});
  }
  for (const auto& [name, r] : shown.resources) {
    Json sizes = Json::array();
    for (const auto& fit : r.fits)
      sizes.push_back({{"slots", fit.request},
                       {"wholeDevice", fit.whole},
                       {"memoryMiB", fit.memory_mib},
                       {"containers", fit.containers},
                       {"stranded", fit.stranded},
                       {"byNode", fit.by_node}});
    resources[name] = {{"slots", r.slots},
                       {"held", r.held},
                       {"unhealthy", r.unhealthy},
                       {"free", r.free},
                       {"onEmptyDevices", r.whole},
                       {"fragmented", r.free - r.whole},
                       {"largestRequest", r.largest},
                       {"fits", std::move(sizes)}};
  }
  return json_text(Json{{"server", shown.server},
                        {"when", shown.when},
                        {"problem", shown.problem},
                        {"resources", std::move(resources)},
                        {"nodes", std::move(nodes)}},
                   2);
}

Node make_node(std::string name, std::string_view status_json) {
  Node node{.name = std::move(name)};
  const auto status = json_of(status_json);
  if (status.is_object()) {
    node.devices = view::read_devices(status).planned;
    node.offers = offers_of(status, node.devices);
  } else {
    node.problem = "the status is not a JSON object: " + in_quotes(status_json);
  }
  return node;
}

Resources resources_of(const std::vector<Node>& nodes) {
  Resources all;
  std::map<std::string, Offers> offers;
  for (const auto& node : nodes) {
    for (const auto& device : node.devices) {
      Resource& resource = all[device.resource];
      const std::uint64_t held = device.held(), rest = device.slots.size() - held;
      resource.slots += device.slots.size();
      resource.held += held;
      (device.healthy ? resource.free : resource.unhealthy) += rest;
      if (device.healthy && held == 0) resource.whole += rest;
    }
    for (const auto& [name, offer] : node.offers) {
      offers[name].emplace_back(&node, &offer);
      all[name].largest = std::max(all[name].largest, simulate::largest_that_fits(offer));
    }
  }
  for (auto& [name, resource] : all)
    for (const auto size : sizes_of(offers[name]))
      if (auto fit = fit_of(offers[name], size)) {
        fit->stranded = resource.free - std::min(resource.free, fit->containers * size);
        resource.fits.push_back(*std::move(fit));
      }
  return all;
}

}  // namespace tranche::web
