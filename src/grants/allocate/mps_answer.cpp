#include "grants/allocate/mps_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plan/client_limits.h"
#include "plan/shares.h"

namespace tranche::grants {
namespace {

std::string named(const plan::PlannedDevice& device) {
  return fmt::format("{} {} ({})", device.is_mig ? "MIG device" : "GPU", device.index, device.uuid);
}

std::string where(const std::vector<DeviceSlots>& held) {
  std::vector<std::string> parts;
  for (const auto& h : held) parts.push_back(fmt::format("{} on {}", h.slots, named(*h.device)));
  return join(parts, ", ");
}

// One percentage for all devices, so no device gets more SMs than the shares of its slots; where that yields a count
// that computes wrong on one of them, it is rounded as there.
Percent common_threads(const Grant& grant, const std::vector<DeviceSlots>& held) {
  Percent threads;
  for (const auto& device : grant.devices)
    if (const auto own = device.limits.threads; own.hundredths > 0)
      threads = threads.hundredths == 0 ? own : std::min(threads, own);
  for (const auto& h : held) {
    const auto& device = *h.device;
    const auto trusted = plan::trusted_sm_counts(device.compute_capability, device.sm_count, device.driver_version);
    if (threads.hundredths > 0)
      threads = plan::round_to_trusted(threads, device.sm_count, trusted, device.policy.rounding);
  }
  return threads;
}

// The fewest slots of the device that a context fits in; 0: not even all of them.
std::uint32_t fewest_slots(const plan::PlannedDevice& device, std::uint32_t from) {
  for (std::uint32_t held = from; held <= device.slots; ++held)
    if (plan::share_of(device, held).memory >= plan::kSmallestContext) return held;
  return 0;
}

// The variable may name whole GPUs only: for anything else the driver drops every limit of the client, the daemon's
// too. A MIG device is held by one slot a container, whose limit is the daemon's (plan/make_plan.cpp).
std::vector<plan::DeviceMemory> memory_to_write(const Grant& grant, const std::vector<DeviceSlots>& held) {
  std::vector<plan::DeviceMemory> memory;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i].device->policy.memory.kind == config::MemoryPolicy::Kind::kTenant) return {};
    const auto& limit = grant.devices[i];
    if (limit.limits.memory.value == 0) continue;
    if (plan::is_gpu_uuid(limit.uuid)) memory.emplace_back(limit.uuid, limit.limits.memory);
  }
  return memory;
}

Percent threads_to_write(const Grant& grant, const std::vector<DeviceSlots>& held) {
  using Kind = config::ThreadsPolicy::Kind;
  const auto kind = held.front().device->policy.threads.kind;
  return kind == Kind::kTenant || kind == Kind::kOpen ? Percent{} : grant.devices.front().limits.threads;
}

struct MostFree {
  std::uint32_t slots = 0;
  std::string on;  // "GPU 0"
};

// The device with the most free slots; nothing where that is not known of each.
std::optional<MostFree> most_free(const plan::PlannedResource& resource, const Around& around) {
  std::optional<MostFree> most;
  for (const auto& device : resource.devices) {
    const auto room = around.room.find(device.uuid);
    const auto held_now = room == around.room.end() ? std::nullopt : room->second.held;
    if (!held_now) return std::nullopt;
    const std::uint32_t free = device.slots - std::min(device.slots, *held_now);
    if (!most || free > most->slots) most = {free, "GPU " + device.index};
  }
  return most;
}

// What to ask for instead of slots that no one device has free.
std::string ask_instead(const plan::PlannedResource& resource, const std::vector<DeviceSlots>& held, std::size_t asked,
                        const Around& around) {
  const auto most = std::ranges::max(held, {}, [](const DeviceSlots& h) { return h.device->slots; }).device->slots;
  const auto free = most_free(resource, around);
  if (!free || asked > most || free->slots >= asked)
    return fmt::format("ask for at most {} a container so that they fit on one GPU", most);
  return fmt::format(
      "no GPU has {} free slots (most free: {} on {}); ask for at most {} now, or end or move a pod that holds slots",
      asked, free->slots, free->on, free->slots);
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

void put_limits(Grant& grant, const std::vector<DeviceSlots>& held) {
  for (std::size_t i = 0; i < held.size(); ++i)
    grant.devices[i].limits = plan::share_of(*held[i].device, held[i].slots);
  if (held.size() < 2) return;
  const Percent threads = common_threads(grant, held);
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
                      resource.name, memory.in_mib(), named(device), plan::kSmallestContext.in_mib(),
                      fewest == 0 ? "have the operator cut it into fewer slots"
                                  : fmt::format("ask for at least {} a container", fewest)));
    }
    const auto room = around.room.find(device.uuid);
    if (room != around.room.end() && room->second.most > 0 && room->second.live >= room->second.most) {
      return fail(Kind::kUnavailable,
                  fmt::format("{} has {} containers, and its MPS server takes {} clients: a CUDA process of one more "
                              "could not start; have the pod wait until another has ended, or ask for more slots of {} "
                              "in fewer containers",
                              named(device), room->second.live, room->second.most, resource.name));
    }
  }
  return {};
}

Status put_mps(Grant& grant, const std::vector<DeviceSlots>& held, const Settings& settings, const Around& around) {
  grant.pool = held.front().device->pool;
  grant.envs[std::string(plan::kPipeVariable)] = kEndpointInContainer;
  grant.mounts.push_back({kEndpointInContainer, settings.paths.endpoint(grant.pool, grant.id), true});
  if (!settings.program_dir.empty()) grant.mounts.push_back({kProgramsInContainer, settings.program_dir, true});
  if (around.pool_is_joined) return {};

  if (const auto memory = memory_to_write(grant, held); !memory.empty()) {
    // A string that the driver cannot read lifts the limit altogether (measured), so read it back before it leaves.
    const std::string text = plan::render_pinned_limit(memory);
    if (const auto back = plan::parse_pinned_limit(text); !back || back->size() != memory.size()) {
      return fail(Kind::kInvalid, "the memory limit " + in_quotes(text) + " would not be understood by the driver");
    }
    grant.envs[std::string(plan::kPinnedLimitVariable)] = text;
  }
  if (const auto threads = threads_to_write(grant, held); threads.hundredths > 0)
    grant.envs[std::string(plan::kThreadPercentageVariable)] = to_string(threads);
  return {};
}

}  // namespace tranche::grants
