#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "grants/allocate/grant.h"
#include "grants/allocate/mps_answer.h"
#include "plan/slot_id.h"

namespace tranche::grants {
namespace {

using config::ListStrategy;

constexpr const char* kVolumeMountRoot = "/var/run/nvidia-container-devices";
constexpr const char* kCdiVendor = "k8s.device-plugin.nvidia.com";

// The slots asked for, by device in driver order. Everything that kubelet could get wrong is distinguished here.
Result<std::vector<DeviceSlots>> find_slots(const plan::PlannedResource& resource, const plan::Faults& faults,
                                            std::span<const std::string> ids) {
  if (ids.empty()) return fail(Kind::kInvalid, "the request for " + resource.name + " names no device");
  std::vector<DeviceSlots> held;
  for (const auto& device : resource.devices) held.push_back({&device, 0});
  std::set<std::string_view> seen;
  for (const auto& id : ids) {
    if (!seen.insert(id).second)
      return fail(Kind::kInvalid, "device " + in_quotes(id) + " is asked for twice in one container");
    const auto parsed = plan::parse_slot_id(id);
    const auto it = std::ranges::find_if(held, [&](const DeviceSlots& h) {
      return parsed && h.device->uuid == parsed->uuid && h.device->replicated == parsed->ordinal.has_value() &&
             parsed->ordinal.value_or(0) < h.device->slots;
    });
    if (it == held.end()) {
      return fail(Kind::kNotFound,
                  fmt::format("{} has no device {}; the node advertises {} devices under that name now", resource.name,
                              in_quotes(id), resource.devices.size()));
    }
    if (const auto reason = plan::reason_unhealthy(*it->device, faults)) {
      return fail(Kind::kUnavailable,
                  fmt::format("device {} of {} is unhealthy: {}", in_quotes(id), resource.name, *reason));
    }
    ++it->slots;
  }
  std::erase_if(held, [](const DeviceSlots& h) { return h.slots == 0; });
  return held;
}

// A GPU is always named: where its spec is missing the runtime refuses the container and says so, and tries again; left
// out, the container would start without a GPU and not know why. The rest is named where a spec was written for it, or
// while no specs are known at all, which the runtime answers in the same way.
void put_cdi(Grant& grant, const std::vector<std::string>& ids, const Settings& settings, bool annotations,
             bool field) {
  const auto& classes = settings.cdi_classes;
  const auto in_force = [&](const char* cls) { return classes.contains(cls) || !classes.contains("gpu"); };
  std::vector<std::string> names;
  const auto name = [&](std::string_view cls, std::string_view id) {
    names.push_back(fmt::format("{}/{}={}", kCdiVendor, cls, id));
  };
  for (const auto& id : ids) name("gpu", id);
  if (in_force("imex-channel")) {
    for (const int channel : settings.imex_channels) name("imex-channel", std::to_string(channel));
  }
  if (settings.flags.gdrcopy_enabled && in_force("gdrcopy")) name("gdrcopy", "all");
  if (settings.flags.gds_enabled && in_force("gds")) name("gds", "all");
  if (settings.flags.mofed_enabled && in_force("mofed")) name("mofed", "all");
  if (annotations) {
    grant.annotations[settings.flags.plugin.cdi_annotation_prefix + "nvidia-device-plugin_" + grant.id] =
        join(names, ",");
  }
  if (field) grant.cdi_devices = std::move(names);
}

void put_visible_devices(Grant& grant, const std::vector<std::string>& ids, const Settings& settings, bool envvar,
                         bool mounts) {
  std::vector<std::string> channels;
  for (const int channel : settings.imex_channels) channels.push_back(std::to_string(channel));
  if (envvar) {
    grant.envs["NVIDIA_VISIBLE_DEVICES"] = join(ids, ",");
    if (!channels.empty()) grant.envs["NVIDIA_IMEX_CHANNELS"] = join(channels, ",");
  }
  if (mounts) {
    grant.envs["NVIDIA_VISIBLE_DEVICES"] = kVolumeMountRoot;
    for (const auto& id : ids) grant.mounts.push_back({fmt::format("{}/{}", kVolumeMountRoot, id), "/dev/null", false});
    for (const auto& channel : channels)
      grant.mounts.push_back({fmt::format("{}/imex/{}", kVolumeMountRoot, channel), "/dev/null", false});
  }
}

// Control nodes, the devices' own, IMEX channels; each once. A device without a node of NVIDIA's driver (WSL has
// /dev/dxg, Tegra none) has no use for the control nodes and channels of that driver.
void put_device_nodes(Grant& grant, const std::vector<DeviceSlots>& held, const Settings& settings) {
  std::string root =
      settings.flags.nvidia_dev_root.empty() ? settings.flags.nvidia_driver_root : settings.flags.nvidia_dev_root;
  while (!root.empty() && root.back() == '/') root.pop_back();
  std::vector<std::string> paths;
  for (const auto& h : held) paths.insert(paths.end(), h.device->paths.begin(), h.device->paths.end());
  if (std::ranges::any_of(paths, [](const auto& path) { return path.starts_with("/dev/nvidia"); })) {
    paths.insert(paths.begin(), settings.control_nodes.begin(), settings.control_nodes.end());
    for (const int channel : settings.imex_channels)
      paths.push_back(fmt::format("/dev/nvidia-caps-imex-channels/channel{}", channel));
  }
  for (const auto& path : paths) {
    const bool known =
        std::ranges::any_of(grant.device_nodes, [&](const DeviceNode& d) { return d.container_path == path; });
    if (!known) grant.device_nodes.push_back({path, root + path, "rw"});
  }
}

bool uses(const Settings& settings, ListStrategy strategy) {
  const auto& strategies = settings.flags.plugin.device_list_strategy;
  return std::ranges::find(strategies, strategy) != strategies.end();
}

std::string visible_name(const plan::PlannedDevice& device, const Settings& settings) {
  return settings.flags.plugin.device_id_strategy == config::IdStrategy::kIndex ? device.index : device.uuid;
}

// All but CDI names.
void put_devices(Grant& grant, const std::vector<DeviceSlots>& held, const std::vector<std::string>& visible,
                 const Settings& settings, bool of_several) {
  if (settings.flags.gdrcopy_enabled) grant.envs["NVIDIA_GDRCOPY"] = "enabled";
  if (settings.flags.gds_enabled) grant.envs["NVIDIA_GDS"] = "enabled";
  if (settings.flags.mofed_enabled) grant.envs["NVIDIA_MOFED"] = "enabled";
  const bool envvar = uses(settings, ListStrategy::kEnvvar), mounts = uses(settings, ListStrategy::kVolumeMounts);
  if (!envvar && !mounts) return;
  put_visible_devices(grant, visible, settings, envvar, mounts);
  if (settings.flags.plugin.pass_device_specs || (of_several && envvar)) put_device_nodes(grant, held, settings);
}

}  // namespace

std::string grant_id(std::span<const std::string> slots) {
  if (slots.size() == 1) return hex16(stable_hash(slots.front()));  // as most have, and no copy of it
  std::vector<std::string> sorted(slots.begin(), slots.end());
  std::ranges::sort(sorted);
  return hex16(stable_hash(join(sorted, ",")));
}

Result<Grant> allocate(const plan::PlannedResource& resource, const plan::Faults& faults,
                       std::span<const std::string> ids, const Settings& settings, const Around& around) {
  TRY(const auto held, find_slots(resource, faults, ids));
  TRY_STATUS(check_sharing(resource, held, ids.size(), around));

  Grant grant;
  grant.id = grant_id(ids);
  grant.resource = resource.name;
  grant.slots.assign(ids.begin(), ids.end());
  std::ranges::sort(grant.slots);

  const bool mps = resource.sharing == config::SharingStrategy::kMps && !held.front().device->pool.empty();
  std::vector<std::string> visible;
  for (const auto& [device, slots] : held) {
    visible.push_back(visible_name(*device, settings));
    grant.devices.push_back({device->uuid, slots, {}});
  }
  if (mps) {
    put_limits(grant, held);
    TRY_STATUS(check_limits(resource, grant, held, around));
    TRY_STATUS(put_mps(grant, held, settings, around));
    if (settings.framework_environment) put_framework_environment(grant, held, around);
  }

  put_cdi(grant, visible, settings, uses(settings, ListStrategy::kCdiAnnotations),
          uses(settings, ListStrategy::kCdiCri));
  // The variable is one, so it names the devices of one answer only: those of the others come as device nodes.
  const bool of_several = around.pool_is_joined || (!mps && resource.split == config::SplitPolicy::kSpan);
  put_devices(grant, held, visible, settings, of_several);
  return grant;
}

Result<Grant> allocate(const ClaimPart& part, const Settings& settings) {
  Grant grant;
  grant.id = part.id;
  std::vector<DeviceSlots> held;
  std::vector<std::string> visible;
  for (const auto& [planned, limits] : part.devices) {
    held.push_back({&planned, 1});
    visible.push_back(visible_name(planned, settings));
    grant.devices.push_back({planned.uuid, 1, limits});
  }
  if (!part.devices.front().planned.pool.empty()) {
    TRY_STATUS(put_mps(grant, held, settings, {}));
    if (settings.framework_environment) put_framework_environment(grant, held, {});
  }
  put_cdi(grant, visible, settings, false,
          uses(settings, ListStrategy::kCdiAnnotations) || uses(settings, ListStrategy::kCdiCri));
  put_devices(grant, held, visible, settings, false);
  return grant;
}

}  // namespace tranche::grants
