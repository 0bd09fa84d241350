#include "node/dra/dra_slices.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::node {
namespace {

std::map<std::string, gpu::Unhealthy> gpu_faults(const NodeView& node) {
  auto faults = node.decision.faults.devices;
  if (!node.in.inventory || node.in.driver_problem.empty()) return faults;
  for (const auto& gpu : node.in.inventory->gpus)
    faults.try_emplace(gpu.uuid, gpu::Unhealthy{gpu::Cause::kDriver, node.in.driver_problem});
  return faults;
}

void add_pool_faults(const NodeView& node, std::vector<dra::Device>& devices) {
  for (const auto& pool : node.decision.plan.pools) {
    const auto down = node.decision.faults.pools.find(pool.id);
    if (down == node.decision.faults.pools.end()) continue;
    for (dra::Device& device : devices)
      if (device.kind == dra::Kind::kShared && !device.fault &&
          std::ranges::find(pool.devices, device.gpu_uuid) != pool.devices.end())
        device.fault = gpu::Unhealthy{gpu::Cause::kPool, down->second};
  }
}

}  // namespace

dra::Devices dra_devices(const NodeView& node) {
  if (!node.in.inventory) return {};
  auto devices = dra::devices_of(node.in.config.config, *node.in.inventory, gpu_faults(node), node.in.partitionable);
  add_pool_faults(node, devices.list);
  return devices;
}

DraSlices::DraSlices(os::Loop& loop, kube::KubeLink& link, const std::string& node_name,
                     std::function<void()> on_change)
    : link_(link),
      named_(!node_name.empty()),
      publisher_(loop, node_name, stable_hash(node_name + " slices"), std::move(on_change)) {}

// Before the driver has reported its GPUs and MIG profiles, what an earlier process published stays.
void DraSlices::follow(const NodeView& node) {
  const auto& dra = node.in.config.config.dra;
  wanted_ = dra.devices != config::DraDevices::kNone;
  ever_wanted_ = ever_wanted_ || wanted_;
  not_partitioned_ = node.in.partitionable.why_not;
  if (!named_) return;
  publisher_.use(link_.client());
  if (!wanted_) return publisher_.want({});
  if (node.in.inventory && node.in.partitionable.known) publisher_.want({dra.driver_name, dra_devices(node)});
}

SliceReport DraSlices::report() const {
  SliceReport report = publisher_.report();
  if (wanted_ && !named_) {
    report.state = "failing";
    report.problem = "the name of this node is not known (--node-name, $NODE_NAME)";
  } else if (wanted_ && link_.settled() && link_.client() == nullptr) {
    report.state = "failing";
    report.problem = link_.closed_because();
  }
  return report;
}

std::optional<kube::NodeCondition> DraSlices::condition() const {
  if (!ever_wanted_) return std::nullopt;
  const SliceReport now = report();
  if (now.state == "publishing") return std::nullopt;  // a moment, and not an event of the node
  const auto say = [](bool ready, std::string reason, std::string message) {
    return kube::NodeCondition{ready, std::move(reason), std::move(message), std::string(kube::kDraCondition)};
  };
  if (now.state == "off") return say(false, "Off", "dra.devices is none: no ResourceSlices are published");
  if (now.state != "published") return say(false, "NotPublished", now.problem.empty() ? now.state : now.problem);
  if (!now.withheld.empty()) return say(true, "Withheld", now.withheld.front());
  std::string message = std::to_string(now.devices) + " devices of driver " + now.driver;
  if (!not_partitioned_.empty()) message += "; no GPU is partitioned on demand: " + not_partitioned_;
  return say(true, "Published", std::move(message));
}

}  // namespace tranche::node
