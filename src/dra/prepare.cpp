#include "dra/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/text.h"
#include "plan/shares.h"

namespace tranche::dra {
namespace {

constexpr const char* kMemory = "memory";
constexpr const char* kCores = "cores";

std::string named(const Device& device) {
  if (device.partition)
    return fmt::format("MIG device {} at {} of GPU {} ({})", device.profile,
                       mig::to_string(device.partition->instance.place), device.index, device.gpu_uuid);
  if (device.kind == Kind::kMig)
    return fmt::format("MIG device {} of GPU {} ({})", device.profile, device.index, device.gpu_uuid);
  return fmt::format("GPU {} ({})", device.index, device.gpu_uuid);
}

std::string asked_for(const Allocated& allocated) {
  return fmt::format("request {}: device {}", in_quotes(allocated.request), visible_text(allocated.device));
}

struct Partitioned {
  mig::Placement place;
  std::string claim;
};

// What is held of one GPU by parts of claims.
struct Held {
  Bytes memory;
  std::uint64_t cores = 0;
  std::string whole;   // the claim that holds all of it
  std::string shared;  // one of those that hold a share
  std::vector<Partitioned> partitions;
};

// The GPU or MIG device that is counted for a part: of a MIG device that is made on demand, its GPU.
const std::string& counted_on(const Part& part) {
  return part.instance ? part.parent_uuid : part.gpu_uuid;
}

void count(Held& held, const Part& part, const ClaimName& claim) {
  if (part.instance) return held.partitions.push_back({part.instance->place, to_string(claim)});
  if (part.kind == Kind::kWhole || part.kind == Kind::kMig) held.whole = to_string(claim);
  if (part.kind != Kind::kShared) return;
  held.shared = to_string(claim);
  held.memory = held.memory + part.limits.memory;
  held.cores += part.cores;
}

// A scheduler whose feature gate DRAConsumableCapacity is off hands a shared device out without amounts.
Status take_share(const Allocated& allocated, const Device& device, Part& part) {
  const auto consumed = [&](const char* capacity) {
    const auto at = allocated.consumed.find(capacity);
    return at == allocated.consumed.end() ? 0 : at->second;
  };
  const Bytes memory{consumed(kMemory)};
  const std::uint64_t cores = consumed(kCores);
  if (memory < plan::kSmallestContext || memory > device.memory || cores == 0 || cores > kCoresAll)
    return fail(
        tranche::Kind::kInvalid,
        fmt::format("{} consumes {} MiB of memory and {} cores, and a share of {} has from {} to {} MiB and from "
                    "1 to {} cores; see that the feature gate DRAConsumableCapacity is on in API server and "
                    "scheduler, and {}",
                    asked_for(allocated), memory.in_mib(), cores, named(device), plan::kSmallestContext.in_mib(),
                    device.memory.in_mib(), kCoresAll, kCreateAgain));
  part.limits.memory = part.limits.memory + mib(memory.in_mib());
  part.cores += static_cast<std::uint32_t>(cores);
  return {};
}

// Who may have such a device, and with what.
Status check_access(const Allocated& allocated, const Device& device) {
  if (device.kind == Kind::kMonitor && !allocated.admin_access)
    return fail(tranche::Kind::kInvalid,
                fmt::format("{} is for monitoring and was allocated without adminAccess; write adminAccess: true, in "
                            "a namespace with the label resource.kubernetes.io/admin-access=true",
                            asked_for(allocated)));
  if (device.partition && allocated.admin_access)
    return fail(tranche::Kind::kInvalid,
                fmt::format("{} was allocated with adminAccess, and it exists only while a claim has it; remove "
                            "adminAccess, or name the type of device in the request's selectors",
                            asked_for(allocated)));
  return {};
}

const Device& device_of(const Part& part, const Offered& offered) {
  return *find_device(offered.devices, part.devices.front().device);
}

Percent trusted(Percent threads, const Device& device, config::SmRounding rounding) {
  const auto counts = plan::trusted_sm_counts(device.compute_capability, device.sms);
  return plan::round_to_trusted(threads, device.sms, counts, rounding);
}

Status check_slots(const Part& part, const Device& device, const Offered& offered) {
  if (!offered.slots_known)
    return fail(tranche::Kind::kUnavailable,
                "kubelet has not reported yet which pods hold slots of the device plugin; kubelet asks again");
  auto slots = offered.slots_held.find(part.gpu_uuid);
  if (slots == offered.slots_held.end()) slots = offered.slots_held.find(device.parent_uuid);
  if (slots == offered.slots_held.end()) return {};
  return fail(tranche::Kind::kConflict,
              fmt::format("request {} cannot have {}: {} holds slots of the device plugin there, from before "
                          "dra.devices was set; kubelet asks again, and it succeeds once that pod has ended",
                          in_quotes(part.request), named(device), slots->second));
}

Status check_room(const Part& part, const Device& device, const Held& held) {
  const auto conflict = [&](std::string_view why) {
    return fail(
        tranche::Kind::kConflict,
        fmt::format("request {} cannot have {} of {} now: {}; kubelet asks again, and it succeeds once that "
                    "claim's pods have ended on this node",
                    in_quotes(part.request), part.kind == Kind::kShared ? "a share" : "all", named(device), why));
  };
  if (!held.whole.empty()) return conflict(fmt::format("the claim {} holds all of it", held.whole));
  for (const auto& [place, claim] : held.partitions) {
    if (!part.instance && part.kind == Kind::kMig) break;  // a MIG device that is there has its own place
    if (!part.instance || mig::overlap(place, part.instance->place))
      return conflict(fmt::format("the claim {} holds the MIG device at {}", claim, mig::to_string(place)));
  }
  if (part.kind == Kind::kWhole || part.instance)
    return held.shared.empty() ? Status{} : conflict(fmt::format("the claim {} holds a share of it", held.shared));
  if (held.memory + part.limits.memory > device.memory)
    return conflict(fmt::format("claims such as {} hold {} of {} MiB of memory, and {} MiB are asked for", held.shared,
                                held.memory.in_mib(), device.memory.in_mib(), part.limits.memory.in_mib()));
  if (held.cores + part.cores > kCoresAll)
    return conflict(fmt::format("claims such as {} hold {} of {} cores, and {} are asked for", held.shared, held.cores,
                                kCoresAll, part.cores));
  return {};
}

// A container has one endpoint, which leads to one MPS daemon, and a CUDA process is the client of one. A client of MPS
// sees no MIG device of a different GPU, and kubelet draws the order of a request's CDI devices.
Status check_requests(const PreparedClaim& claim) {
  for (const auto& part : claim.parts) {
    for (const auto& other : claim.parts) {
      if (other.request != part.request || !has_endpoint(other.kind)) continue;
      if (part.kind == Kind::kMig)
        return fail(tranche::Kind::kInvalid,
                    fmt::format("request {} has the MIG device {} and a part of the GPU {}, which need different "
                                "variables in one container; name the type of device in the request's selectors, and "
                                "write a request for each",
                                in_quotes(part.request), part.gpu_uuid, other.gpu_uuid));
      if (has_endpoint(part.kind) && other.mps_pool != part.mps_pool)
        return fail(tranche::Kind::kInvalid,
                    fmt::format("request {} has the GPUs {} and {}, each of which has an MPS daemon of its own, and a "
                                "CUDA process is the client of one; have the operator join the GPUs of the node "
                                "(dra.split: span), or write a request for each GPU and give each to a container of "
                                "its own",
                                in_quotes(part.request), part.gpu_uuid, other.gpu_uuid));
    }
  }
  return {};
}

// A process has one percentage on all its GPUs, so a request has the smallest of its parts, which must compute right
// results on each of them.
void set_threads(PreparedClaim& claim, const Offered& offered) {
  for (auto& part : claim.parts) {
    if (part.kind != Kind::kShared) continue;
    Percent threads = Percent::whole(kCoresAll);
    auto same = claim.parts | std::views::filter([&part](const Part& each) {
                  return each.grant == part.grant && each.kind == Kind::kShared;
                });
    for (const Part& each : same)
      threads = std::min(threads, trusted(Percent::whole(each.cores), device_of(each, offered), offered.rounding));
    for (const Part& each : same) threads = trusted(threads, device_of(each, offered), offered.rounding);
    part.limits.threads = threads;
    part.limits.sms = plan::sms_at(threads, device_of(part, offered).sms);
  }
}

// Limits by UUID, or by place among the request's GPUs.
Result<Bytes> process_memory(const PreparedClaim& claim, const Part& part, const DeviceConfig& config) {
  std::vector<std::string> gpus;
  for (const auto& each : claim.parts)
    if (each.request == part.request && each.kind != Kind::kMonitor) gpus.push_back(each.gpu_uuid);
  Bytes memory = config.memory;
  for (const auto& [key, limit] : config.memory_on) {
    const auto place = parse_unsigned(key);
    const std::string gpu = place && *place < gpus.size() ? gpus[*place] : key;
    if (std::ranges::find(gpus, gpu) == gpus.end())
      return fail(
          tranche::Kind::kInvalid,
          fmt::format("{}.sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[{}] is not a GPU of request {}; "
                      "write a UUID of {}, or its number from 0 to {}",
                      config.field, in_quotes(key), in_quotes(part.request), join(gpus, ", "), gpus.size() - 1));
    if (gpu == part.gpu_uuid) memory = limit;
  }
  return memory;
}

// What a configuration of NVIDIA's kinds does here. A GPU that is claimed as a whole is shared by the claim's processes
// through MPS in any case: time-slicing needs no more, and has no interval.
Status configure(const Claim& claim, const Offered& offered, PreparedClaim& made) {
  for (auto& part : made.parts) {
    TRY(const auto* applied, config_of(claim.configs, part.request, part.kind));
    if (applied == nullptr) continue;
    const auto& config = *applied;
    if (config.strategy == DeviceConfig::Strategy::kTimeSlicing && part.kind == Kind::kShared)
      return fail(tranche::Kind::kInvalid,
                  fmt::format("{}.sharing.strategy is TimeSlicing, and request {} has a share of a GPU, whose limits "
                              "need MPS; write MPS, or ask for a whole GPU",
                              config.field, in_quotes(part.request)));
    if (config.strategy == DeviceConfig::Strategy::kMps && part.kind == Kind::kMig)
      return fail(tranche::Kind::kInvalid,
                  fmt::format("{}.sharing.strategy is MPS, and request {} has a MIG device, which claims get without "
                              "MPS; write TimeSlicing, or leave sharing out",
                              config.field, in_quotes(part.request)));
    TRY(auto memory, process_memory(made, part, config));
    if (part.limits.memory.value > 0 && memory.value > 0) memory = std::min(memory, part.limits.memory);
    part.process.memory = memory;
    if (config.threads == 0) continue;
    const Device& device = device_of(part, offered);
    auto threads = trusted(Percent::whole(config.threads), device, offered.rounding);
    if (part.limits.threads.hundredths > 0) threads = std::min(threads, part.limits.threads);
    part.process.threads = threads;
    part.process.sms = plan::sms_at(threads, device.sms);
  }
  return {};
}

Part& part_of(PreparedClaim& claim, const std::string& request, const Device& device, Kind kind) {
  for (auto& part : claim.parts)
    if (part.request == request && part.gpu_uuid == device.gpu_uuid && part.kind == kind && !device.partition)
      return part;
  Part part;
  part.request = request;
  part.gpu_uuid = device.gpu_uuid;
  part.kind = kind;
  if (device.partition) {
    part.instance = device.partition->instance;
    part.parent_uuid = device.parent_uuid;
  }
  return claim.parts.emplace_back(std::move(part));
}

}  // namespace

plan::ShareLimits Part::of_each_process() const {
  plan::ShareLimits all = limits;
  if (process.memory.value > 0) all.memory = process.memory;
  if (process.threads.hundredths == 0) return all;
  all.threads = process.threads;
  all.sms = process.sms;
  return all;
}

Result<PreparedClaim> prepare(const Claim& claim, const Offered& offered, const PreparedClaims& prepared) {
  if (const auto known = prepared.find(claim.name.uid); known != prepared.end()) return known->second;
  PreparedClaim made{claim.name, claim.pod, {}, claim.pod_uid, offered.driver};
  for (const auto& allocated : claim.devices) {
    const Device* device = find_device(offered.devices, allocated.device);
    if (device == nullptr && !offered.partitions_known)
      return fail(tranche::Kind::kUnavailable,
                  fmt::format("{} is not known yet: the MIG profiles of this node's GPUs are being read; kubelet asks "
                              "again",
                              asked_for(allocated)));
    if (device == nullptr)
      return fail(tranche::Kind::kNotFound,
                  fmt::format("{} is not on this node any more (the node offers {} devices); {}", asked_for(allocated),
                              offered.devices.size(), kCreateAgain));
    TRY_STATUS(check_access(allocated, *device));
    // Admin access uses no capacity of the GPU, whichever device it names.
    const Kind kind = allocated.admin_access ? Kind::kMonitor : device->kind;
    if (device->fault && kind != Kind::kMonitor)
      return fail(tranche::Kind::kUnavailable, fmt::format("{}: {} accepts no new claims: {}; kubelet asks again",
                                                           asked_for(allocated), named(*device), device->fault->why));
    Part& part = part_of(made, allocated.request, *device, kind);
    if (kind == Kind::kShared) TRY_STATUS(take_share(allocated, *device, part));
    part.devices.push_back({allocated.pool, allocated.device, allocated.share_id});
  }

  std::map<std::string, Held> held;
  for (const auto& [uid, other] : prepared)
    for (const auto& part : other.parts) count(held[counted_on(part)], part, other.name);
  for (auto& part : made.parts) {
    if (part.kind == Kind::kMonitor) continue;
    const Device& device = device_of(part, offered);
    TRY_STATUS(check_slots(part, device, offered));
    TRY_STATUS(check_room(part, device, held[counted_on(part)]));
    count(held[counted_on(part)], part, made.name);
    if (!has_endpoint(part.kind)) continue;
    const auto pool = offered.mps_pools.find(part.gpu_uuid);
    if (pool == offered.mps_pools.end())
      return fail(tranche::Kind::kUnavailable,
                  fmt::format("no MPS pool serves {} on this node yet; kubelet asks again", named(device)));
    part.mps_pool = pool->second;
    const auto first = std::ranges::find_if(
        made.parts, [&](const Part& each) { return each.request == part.request && each.kind != Kind::kMonitor; });
    part.grant = hex16(stable_hash(fmt::format("{}/{}/{}", made.name.uid, part.request, first->gpu_uuid)));
  }
  TRY_STATUS(check_requests(made));
  set_threads(made, offered);
  TRY_STATUS(configure(claim, offered, made));
  return made;
}

std::string cdi_device_name(const ClaimName& claim, const Part& part, const PreparedDevice& device) {
  auto name = fmt::format("{}-{}-{}", claim.uid, part.request, device.device);
  if (!device.share_id.empty()) name += "-" + device.share_id;
  return name;
}

}  // namespace tranche::dra
