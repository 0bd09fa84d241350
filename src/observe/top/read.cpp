#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "observe/top/top.h"

namespace tranche::top {
namespace {

using Json = nlohmann::json;

template <class Count = std::uint64_t>
std::optional<Count> known_count(const Json& object, const char* key) {
  const auto value = number_at(object, key);
  return value && *value >= 0 ? std::optional(static_cast<Count>(*value)) : std::nullopt;
}

struct Use {
  std::uint64_t mib = 0;
  std::uint32_t processes = 0;
};
using Uses = std::map<std::string, Use>;  // by grant

Device read_device(const Json& json) {
  Device device;
  device.index = text_at(json, "index");
  device.uuid = text_at(json, "uuid");
  device.name = text_at(json, "name");
  device.sharing = text_at(json, "sharing");
  device.memory_mib = count_at(json, "memoryMiB");
  device.used_mib = known_count(json, "memoryUsedMiB");
  device.busy_percent = known_count<std::uint32_t>(json, "utilization");
  device.sm_percent = known_count<std::uint32_t>(json, "smActive");
  device.healthy = member_at(json, "healthy") != Json(false);
  device.reason = text_at(json, "reason");
  for (const Json& slot : list_at(json, "slots")) {
    ++device.slots;
    device.held += text_at(slot, "holder").empty() ? 0 : 1;
  }
  return device;
}

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
  std::map<std::string, std::string> index_of;
  std::map<std::string, Uses> uses;  // by device; no entry: the driver was not asked yet
  for (const Json& entry : list_at(json, "devices")) {
    const Device& device = node.devices.emplace_back(read_device(entry));
    index_of[device.uuid] = device.index;
    if (!member_at(entry, "processes").is_array()) continue;
    Uses& of_device = uses[device.uuid];
    for (const Json& process : list_at(entry, "processes")) {
      Use& use = of_device[text_at(process, "grant")];
      use.mib += count_at(process, "memoryMiB");
      ++use.processes;
    }
  }
  for (const Json& grant : list_at(json, "grants"))
    for (const Json& held : list_at(grant, "devices")) {
      const std::string uuid = text_at(held, "uuid"), id = text_at(grant, "grant");
      Tenant& tenant = node.tenants.emplace_back();
      tenant.name = text_at(grant, "namespace") + "/" + text_at(grant, "pod") + "/" + text_at(grant, "container");
      tenant.device = index_of.contains(uuid) ? index_of[uuid] : uuid;
      tenant.slots = static_cast<std::uint32_t>(count_at(held, "slots"));
      tenant.limit_mib = count_at(held, "memoryMiB");
      tenant.threads = text_at(held, "threads");
      if (const auto found = uses.find(uuid); found != uses.end() && !id.empty()) {
        tenant.used_mib = found->second[id].mib;
        tenant.processes = found->second[id].processes;
      } else {
        tenant.used_mib = known_count(held, "usedMiB");  // of a document that names no processes
      }
    }
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
      row.slots += device.slots;
      row.held += device.held;
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
                               {"slots", d.slots},
                               {"held", d.held},
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
