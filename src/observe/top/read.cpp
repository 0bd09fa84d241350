#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "observe/top/top.h"

namespace tranche::top {
namespace {

using Json = nlohmann::json;

void read_acts(const Json& guard, Node& node) {
  for (const Json& act : list_at(guard, "acts")) {
    const std::string holder = text_at(act, "holder");
    node.stops.push_back(fmt::format("{} ({}) {}: {} of {} MiB", text_at(act, "what"), text_at(act, "outcome"),
                                     holder.empty() ? text_at(act, "grant") : holder, count_at(act, "heldMiB"),
                                     count_at(act, "limitMiB")));
  }
  std::ranges::reverse(node.stops);
}

}  // namespace

Result<Node> read_node(std::string_view status_json) {
  const Json json = json_of(status_json);
  if (!json.is_object()) return fail(Kind::kInvalid, "the answer is not a status document", "tranche node");
  Node node;
  node.name = text_at(json, "node");
  node.ready = truth_at(json, "ready");
  node.reason = text_at(json, "readyReason");
  node.driver = text_at(member_at(json, "driver"), "version");
  auto devices = view::read_devices(json);
  for (auto& device : devices.planned) {
    for (auto& tenant : device.tenants) tenant.device = device.index;
    std::ranges::move(std::exchange(device.tenants, {}), std::back_inserter(node.tenants));
    node.devices.push_back({std::move(device)});
  }
  std::ranges::move(devices.elsewhere, std::back_inserter(node.tenants));
  for (auto& tenant : node.tenants) tenant.name = tenant.full_name;
  node.waiting = texts_at(member_at(json, "change"), "waitingFor");
  read_acts(member_at(json, "guard"), node);
  return node;
}

Node cluster_of(const std::vector<observe::AgentStatus>& agents) {
  Node all;
  all.cluster = true;
  std::size_t ready = 0;
  for (const auto& agent : agents) {
    Device& row = all.devices.emplace_back();
    row.index = agent.node;
    auto read =
        agent.document.empty() ? Result<Node>(fail(Kind::kUnavailable, agent.problem)) : read_node(agent.document);
    if (!read) {
      row.answers = row.healthy = false;
      row.reason = to_string(read.error());
      continue;
    }
    ready += read->ready ? 1 : 0;
    row.healthy = read->ready;
    row.sharing = count_text(read->devices.size(), "GPU");
    if (!read->ready) row.reason = read->reason;
    row.used_mib = 0;
    for (const auto& device : read->devices) {
      row.memory_mib += device.memory_mib;
      row.used_mib = row.used_mib && device.used_mib ? std::optional(*row.used_mib + *device.used_mib) : std::nullopt;
      row.slots.insert(row.slots.end(), device.slots.begin(), device.slots.end());
      if (device.healthy) continue;
      row.healthy = false;
      row.reason += (row.reason.empty() ? "" : "; ") + fmt::format("GPU {}: {}", device.index, device.reason);
    }
    for (auto& tenant : read->tenants) {
      tenant.device = agent.node + "/" + tenant.device;
      all.tenants.push_back(std::move(tenant));
    }
    for (const auto& waiting : read->waiting) all.waiting.push_back(agent.node + ": " + waiting);
  }
  all.ready = ready == agents.size() && !agents.empty();
  all.reason = fmt::format("{} of {} node agents ready", ready, agents.size());
  return all;
}

std::string to_json(const Node& node, const Choice& choice) {
  using Ordered = nlohmann::ordered_json;
  const auto known = [](const auto& value) { return value ? Ordered(*value) : Ordered(); };
  Ordered json{{"node", node.name}, {"ready", node.ready}, {"reason", node.reason}, {"driver", node.driver}};
  json["devices"] = Ordered::array();
  for (const auto& d : node.devices)
    json["devices"].push_back({{"index", d.index},
                               {"uuid", d.uuid},
                               {"name", d.name},
                               {"sharing", d.sharing},
                               {"memoryMiB", d.memory_mib},
                               {"usedMiB", known(d.used_mib)},
                               {"busyPercent", known(d.busy_percent)},
                               {"smActivePercent", known(d.sm_percent)},
                               {"slots", d.slots.size()},
                               {"held", d.held()},
                               {"answers", d.answers},
                               {"healthy", d.healthy},
                               {"reason", d.reason}});
  json["tenants"] = Ordered::array();
  for (const auto& t : chosen(node, choice))
    json["tenants"].push_back({{"name", t.name},
                               {"device", t.device},
                               {"slots", t.slots},
                               {"usedMiB", known(t.used_mib)},
                               {"limitMiB", t.limit_mib},
                               {"threads", t.threads},
                               {"processes", known(t.processes)}});
  json["waiting"] = node.waiting;
  json["stops"] = node.stops;
  return json_text(json, 2);
}

}  // namespace tranche::top
