#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/text.h"
#include "config/names.h"
#include "grants/allocate/grant.h"
#include "plan/shares.h"

namespace tranche::grants {
namespace {

using config::ListStrategy;

// The requested slots of one device.
struct DeviceSlots {
  const plan::PlannedDevice* device = nullptr;
  std::uint32_t slots = 0;
};

// --- devices ---------------------------------------------------------------------------------------------------------

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
    const auto it = std::ranges::find_if(held, [&](const DeviceSlots& h) { return is_slot_of(*h.device, id); });
    if (it == held.end()) {
      return fail(Kind::kNotFound,
                  fmt::format("{} has no device {}; the node advertises {} devices under that name now", resource.name,
                              in_quotes(id), resource.devices.size()));
    }
    if (const auto fault = plan::fault_of(*it->device, faults)) {
      return fail(Kind::kUnavailable,
                  fmt::format("device {} of {} is unhealthy: {}", in_quotes(id), resource.name, fault->why));
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
  if (settings.imex_channel && in_force("imex-channel")) name("imex-channel", "0");
  if (settings.flags.gdrcopy_enabled && in_force("gdrcopy")) name("gdrcopy", "all");
  if (settings.flags.gds_enabled && in_force("gds")) name("gds", "all");
  if (settings.flags.mofed_enabled && in_force("mofed")) name("mofed", "all");
  if (annotations) {
    grant.annotations[settings.flags.plugin.cdi_annotation_prefix + "nvidia-device-plugin_" + grant.id] =
        join(names, ",");
  }
  if (field) grant.cdi_devices = std::move(names);
}

// Control nodes, the devices' own, IMEX channel; each once. A device without a node of NVIDIA's driver (WSL has
// /dev/dxg, Tegra none) has no use for the control nodes and the channel of that driver.
void put_device_nodes(Grant& grant, const std::vector<DeviceSlots>& held, const Settings& settings) {
  std::string root =
      settings.flags.nvidia_dev_root.empty() ? settings.flags.nvidia_driver_root : settings.flags.nvidia_dev_root;
  while (!root.empty() && root.back() == '/') root.pop_back();
  std::vector<std::string> paths;
  for (const auto& h : held) paths.insert(paths.end(), h.device->paths.begin(), h.device->paths.end());
  if (std::ranges::any_of(paths, [](const auto& path) { return path.starts_with("/dev/nvidia"); })) {
    paths.insert(paths.begin(), settings.control_nodes.begin(), settings.control_nodes.end());
    if (settings.imex_channel) paths.emplace_back(config::kImexChannelNode);
  }
  for (const auto& path : paths) {
    const bool known =
        std::ranges::any_of(grant.device_nodes, [&](const DeviceNode& d) { return d.container_path == path; });
    if (!known) grant.device_nodes.push_back({path, root + path});
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
  if (envvar) {
    grant.envs["NVIDIA_VISIBLE_DEVICES"] = join(visible, ",");
    if (settings.imex_channel) grant.envs["NVIDIA_IMEX_CHANNELS"] = "0";
  }
  if (mounts) {
    grant.envs["NVIDIA_VISIBLE_DEVICES"] = kVolumeMountRoot;
    const auto mount = [&](const std::string& name) {
      grant.mounts.push_back({fmt::format("{}/{}", kVolumeMountRoot, name), "/dev/null", false});
    };
    for (const auto& id : visible) mount(id);
    if (settings.imex_channel) mount("imex/0");
  }
  if ((settings.flags.plugin.pass_device_specs && (envvar || mounts)) || (of_several && envvar))
    put_device_nodes(grant, held, settings);
}

// --- under MPS: whether the slots may be allocated together, their limits, the endpoint ------------------------------

std::string where(const std::vector<DeviceSlots>& held) {
  std::vector<std::string> parts;
  for (const auto& h : held) parts.push_back(fmt::format("{} on {}", h.slots, plan::name_of(*h.device)));
  return join(parts, ", ");
}

// The fewest slots of the device that a context fits in; 0: not even all of them.
std::uint32_t fewest_slots(const plan::PlannedDevice& device, std::uint32_t from) {
  for (std::uint32_t held = from; held <= device.slots; ++held)
    if (plan::share_of(device, held).memory >= plan::kSmallestContext) return held;
  return 0;
}

// "GPU-" and 8-4-4-4-12 hexadecimal digits: the only name that is valid for every view of the devices.
bool is_gpu_uuid(std::string_view text) {
  constexpr std::size_t kLength = 40;  // with dashes: a shorter or longer reference is in another form
  return text.size() == kLength && text.starts_with("GPU-") && config::is_device_reference(text);
}

// "GPU-…=14377M,GPU-…=43131M". The variable may name whole GPUs only: for anything else the driver drops every limit of
// the client, the daemon's too. A MIG device is held by one slot a container, whose limit is the daemon's
// (plan/make_plan.cpp).
std::string memory_to_write(const Grant& grant, const std::vector<DeviceSlots>& held) {
  std::string text;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i].device->policy.memory.kind == config::MemoryPolicy::Kind::kTenant) return {};
    const auto& [uuid, slots, limits] = grant.devices[i];
    if (limits.memory.in_mib() > 0 && is_gpu_uuid(uuid))
      text += fmt::format("{}{}={}M", text.empty() ? "" : ",", uuid, limits.memory.in_mib());
  }
  return text;
}

Percent threads_to_write(const Grant& grant, const std::vector<DeviceSlots>& held) {
  using Kind = config::ThreadsPolicy::Kind;
  const auto kind = held.front().device->policy.threads.kind;
  return kind == Kind::kTenant || kind == Kind::kOpen ? Percent{} : grant.devices.front().limits.threads;
}

// What to ask for instead of slots that no one device has free.
std::string ask_instead(const plan::PlannedResource& resource, const std::vector<DeviceSlots>& held, std::size_t asked,
                        const Around& around) {
  const auto most = std::ranges::max(held, {}, [](const DeviceSlots& h) { return h.device->slots; }).device->slots;
  bool known = true;  // of each device, what is held
  DeviceSlots free;   // the most
  for (const auto& device : resource.devices) {
    const auto room = around.room.find(device.uuid);
    const auto held_now = room == around.room.end() ? std::nullopt : room->second.held;
    known = known && held_now;
    const std::uint32_t here = device.slots - std::min(device.slots, held_now.value_or(0));
    if (free.device == nullptr || here > free.slots) free = {&device, here};
  }
  if (!known || asked > most || free.slots >= asked)
    return fmt::format("ask for at most {} a container so that they fit on one GPU", most);
  return fmt::format(
      "no GPU has {} free slots (most free: {} on GPU {}); ask for at most {} now, or end or move a pod that holds "
      "slots",
      asked, free.slots, free.device->index, free.slots);
}

Status check_sharing(const plan::PlannedResource& resource, const std::vector<DeviceSlots>& held, std::size_t asked,
                     const Around& around) {
  const bool shared = std::ranges::any_of(held, [](const DeviceSlots& h) { return h.device->replicated; });
  if (shared && asked > 1 && resource.one_slot_per_request) {
    return fail(
        Kind::kInvalid,
        fmt::format("the container asks for {} of {}, but failRequestsGreaterThanOne allows 1 a container on this "
                    "node; ask for 1, or have the operator set failRequestsGreaterThanOne: false",
                    asked, resource.name));
  }
  const auto& first = *held.front().device;
  if (resource.sharing != config::SharingStrategy::kMps || !shared || held.size() < 2 || first.pool.empty()) return {};
  const bool one_pool = std::ranges::all_of(held, [&](const DeviceSlots& h) { return h.device->pool == first.pool; });
  const bool span = resource.split == config::SplitPolicy::kSpan;
  if (span && one_pool) return {};
  return fail(
      Kind::kConflict,
      fmt::format("the {} slots of {} lie on {} GPUs ({}), and one CUDA process can use MPS on one of them only; "
                  "{}{}",
                  asked, resource.name, held.size(), where(held), ask_instead(resource, held, asked, around),
                  span ? "" : ", or have the operator set split: span, which joins the GPUs of a resource"));
}

// One percentage for all devices, so no device gets more SMs than the shares of its slots; where that yields a count
// that computes wrong on one of them, it is rounded as there.
void put_limits(Grant& grant, const std::vector<DeviceSlots>& held) {
  Percent threads = Percent::whole(100);
  for (std::size_t i = 0; i < held.size(); ++i) {
    grant.devices[i].limits = plan::share_of(*held[i].device, held[i].slots);
    threads = std::min(threads, grant.devices[i].limits.threads);
  }
  if (held.size() < 2) return;
  for (const auto& [device, slots] : held)
    threads = plan::round_to_trusted(threads, device->sm_count,
                                     plan::trusted_sm_counts(device->compute_capability, device->sm_count),
                                     device->policy.rounding);
  for (std::size_t i = 0; i < held.size(); ++i) {
    auto& limits = grant.devices[i].limits;
    limits.threads = threads;
    limits.sms = plan::sms_at(threads, held[i].device->sm_count);
  }
}

Status check_limits(const plan::PlannedResource& resource, const Grant& grant, const std::vector<DeviceSlots>& held,
                    const Around& around) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    const auto& device = *held[i].device;
    const Bytes memory = grant.devices[i].limits.memory;
    // Where a container may hold one slot only there is nothing else to ask for: that is the plan's to say.
    if (memory.value > 0 && memory < plan::kSmallestContext && !resource.one_slot_per_request) {
      const auto fewest = fewest_slots(device, held[i].slots + 1);
      return fail(
          Kind::kInvalid,
          fmt::format("{} of {} is {} MiB of {}, and a CUDA context alone takes {} MiB there; {}", held[i].slots,
                      resource.name, memory.in_mib(), plan::name_of(device), plan::kSmallestContext.in_mib(),
                      fewest == 0 ? "have the operator cut it into fewer slots"
                                  : fmt::format("ask for at least {} a container", fewest)));
    }
    const auto room = around.room.find(device.uuid);
    if (room != around.room.end() && room->second.is_full()) {
      return fail(Kind::kUnavailable,
                  fmt::format("{} has {} containers, and its MPS server takes {} clients: a CUDA process of one more "
                              "could not start; have the pod wait until another has ended, or ask for more slots of {} "
                              "in fewer containers",
                              plan::name_of(device), room->second.live, room->second.most, resource.name));
    }
  }
  return {};
}

void put_mps(Grant& grant, const std::vector<DeviceSlots>& held, const Settings& settings, const Around& around) {
  grant.pool = held.front().device->pool;
  grant.envs[plan::kPipeVariable] = kEndpointInContainer;
  grant.mounts.push_back({kEndpointInContainer, settings.paths.endpoint(grant.pool, grant.id), true});
  if (around.pool_is_joined) return;

  if (auto memory = memory_to_write(grant, held); !memory.empty())
    grant.envs[plan::kPinnedLimitVariable] = std::move(memory);
  if (const auto threads = threads_to_write(grant, held); threads.hundredths > 0)
    grant.envs[plan::kThreadPercentageVariable] = to_string(threads);
}

// --- frameworks ------------------------------------------------------------------------------------------------------

// Variables with the limits of a container's share, and variables that keep frameworks within it
// (docs/guide/frameworks.md). Under MPS a process sees the memory of the whole GPU as the total, so a framework that
// allocates a fraction of the total allocates more than the share. They are defaults for honest programs: no limit
// depends on them, and a container's own variables come before them.

constexpr Bytes kContext = mib(512);  // what a CUDA context takes of the share, at the most (docs/guide/share-sizes.md)

// A part of a whole, to four decimals and rounded down: a fraction must never ask for more than the share.
double fraction_of(Bytes part, Bytes whole, std::uint64_t tenths = 10) {
  const std::uint64_t whole_mib = (whole + Bytes{mib(1).value - 1}).in_mib();  // up, as the part is rounded down
  return static_cast<double>(std::min<std::uint64_t>(part.in_mib() * tenths * 1'000 / whole_mib, 10'000)) / 10'000;
}

// For several devices, each figure is the smallest, because a process has one fraction for all devices that it sees. A
// figure that is not known is left out: no fraction is while the driver does not report how much memory a device has.
void put_memory_figures(Grant& grant, const std::vector<DeviceSlots>& held) {
  Bytes memory{std::numeric_limits<std::uint64_t>::max()};
  double fraction = 1, jax = 1;  // 1: every device is held whole, and JAX's own default is right
  for (std::size_t i = 0; i < held.size(); ++i) {
    const Bytes whole = held[i].device->memory;
    const Bytes share = std::min(grant.devices[i].limits.memory, whole);
    if (share.in_mib() == 0) return;
    memory = std::min(memory, share);
    fraction = std::min(fraction, fraction_of(share, whole));
    if (share.in_mib() == whole.in_mib()) continue;
    // The context is charged to the share; where few SMs make it small, half of a small share is left. Of the rest a
    // tenth is for what is outside of XLA's pool: work spaces of cuBLAS and cuDNN, and the images of kernels.
    const Bytes left = share < kContext + kContext ? Bytes{share.value / 2} : share - kContext;
    jax = std::min(jax, fraction_of(left, whole, 9));
  }
  grant.envs["TRANCHE_MEMORY_MIB"] = std::to_string(memory.in_mib());
  grant.envs["TRANCHE_MEMORY_FRACTION"] = fmt::format("{:.4f}", fraction);
  if (jax > 0 && jax < 1) grant.envs["XLA_PYTHON_CLIENT_MEM_FRACTION"] = fmt::format("{:.4f}", jax);
}

// In a joined pool all figures are left out, because the answers for one container must not contradict each other
// (Around::pool_is_joined).
void put_framework_environment(Grant& grant, const std::vector<DeviceSlots>& held, const Around& around) {
  grant.envs["TF_FORCE_GPU_ALLOW_GROWTH"] = "true";
  if (around.pool_is_joined) return;
  put_memory_figures(grant, held);
  const auto sms = std::ranges::min(grant.devices, {}, [](const GrantLimit& d) { return d.limits.sms; }).limits.sms;
  if (sms > 0) grant.envs["TRANCHE_SMS"] = std::to_string(sms);
}

}  // namespace

Around around(const plan::Plan& plan, const plan::PlannedResource& resource) {
  Around around;
  for (const auto& device : resource.devices) {
    const auto* pool = device.pool.empty() ? nullptr : plan::find_pool(plan, device.pool);
    if (pool == nullptr) continue;
    around.room[device.uuid].most = pool->max_clients;
    const auto is_here = [&](const std::string& uuid) {
      return std::ranges::find(resource.devices, uuid, &plan::PlannedDevice::uuid) != resource.devices.end();
    };
    if (!std::ranges::all_of(pool->devices, is_here)) around.pool_is_joined = true;
  }
  return around;
}

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
    put_mps(grant, held, settings, around);
    if (settings.framework_environment) put_framework_environment(grant, held, around);
  }

  put_cdi(grant, visible, settings, uses(settings, ListStrategy::kCdiAnnotations),
          uses(settings, ListStrategy::kCdiCri));
  // The variable is one, so it names the devices of one answer only: those of the others come as device nodes.
  const bool of_several = around.pool_is_joined || (!mps && resource.split == config::SplitPolicy::kSpan);
  put_devices(grant, held, visible, settings, of_several);
  return grant;
}

Grant allocate(const ClaimPart& part, const Settings& settings) {
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
    put_mps(grant, held, settings, {});
    if (settings.framework_environment) put_framework_environment(grant, held, {});
  }
  put_cdi(grant, visible, settings, false,
          uses(settings, ListStrategy::kCdiAnnotations) || uses(settings, ListStrategy::kCdiCri));
  put_devices(grant, held, visible, settings, false);
  return grant;
}

}  // namespace tranche::grants
