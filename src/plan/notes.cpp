#include "plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "config/document/amounts.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::SharingStrategy;
using gpu::Gpu;

constexpr gpu::ComputeCapability kHopper{9, 0};

// Resources that differ only in name: of one entry, or of entries with one pattern.
using Family = std::vector<const PlannedResource*>;

// Devices of one family that are equal in every property that notes mention.
struct Group {
  const Gpu* gpu = nullptr;
  const PlannedDevice* device = nullptr;
  std::vector<std::uint32_t> indices;
};

bool same_family(const PlannedResource& a, const PlannedResource& b) {
  return a.original_name == b.original_name && a.sharing == b.sharing && a.split == b.split &&
         a.one_slot_per_request == b.one_slot_per_request && !a.devices.empty() && !b.devices.empty() &&
         a.devices.front().policy == b.devices.front().policy;
}

std::string names_of(const Family& family) {
  const std::string& first = family.front()->name;
  if (family.size() == 1) return first;
  return fmt::format("{} and {} {} like it", first, family.size() - 1, family.size() == 2 ? "other" : "others");
}

std::vector<Group> groups_of(const Family& family, const gpu::Inventory& inventory) {
  using Kind = std::tuple<std::string, bool, std::uint64_t, std::uint32_t, gpu::ComputeCapability, std::uint32_t>;
  std::map<Kind, std::size_t> seen;
  std::vector<Group> groups;
  for (const PlannedResource* resource : family) {
    for (const PlannedDevice& device : resource->devices) {
      const Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
      if (gpu == nullptr) continue;
      const auto [at, is_new] = seen.try_emplace(
          {gpu->name, device.is_mig, device.memory.value, device.sm_count, gpu->compute_capability, device.slots},
          groups.size());
      if (is_new) groups.push_back({gpu, &device, {}});
      auto& indices = groups[at->second].indices;
      if (std::ranges::find(indices, gpu->index) == indices.end()) indices.push_back(gpu->index);
    }
  }
  for (Group& group : groups) std::ranges::sort(group.indices);  // names sort 10 before 2
  return groups;
}

class Notes {
 public:
  Notes(const config::Config& config, const gpu::Inventory& inventory, std::vector<std::string>& out)
      : config_(config), inventory_(inventory), out_(out) {}

  void of(const Group& group) {
    group_ = &group;
    where_ = group.device->is_mig ? fmt::format("MIG devices of {} ({}, {} MiB each)", list_of(group.indices),
                                                group.gpu->name, group.device->memory.in_mib())
                                  : fmt::format("{} ({})", list_of(group.indices), group.gpu->name);
    memory();
    sms();
    clients();
  }

 private:
  template <class... Values>
  void say(fmt::format_string<Values...> sentence, Values&&... values) {
    out_.push_back(where_ + ": " + fmt::format(sentence, std::forward<Values>(values)...));
  }

  void memory() {
    const PlannedDevice& device = *group_->device;
    if (device.memory.value == 0) return say("the driver does not report its memory size, so memory is not limited");
    const Bytes share = device.share.memory;
    const Bytes sum{share.value * device.slots};
    if (sum > device.memory)
      return say(
          "{} slots of {} MiB are {} MiB, more than the {} that are there (memory: {}): the program that allocates "
          "last gets less, or nothing",
          device.slots, share.in_mib(), sum.in_mib(), device.memory.in_mib(), to_string(device.policy.memory));
    const Bytes held = device.is_mig ? kServerReserve : kDriverReserve + kServerReserve;
    if (sum + held > device.memory)
      say("{} slots of {} MiB are {} of {} MiB, which leaves no room for what {}: when all slots are full, the last "
          "one "
          "to allocate gets less",
          device.slots, share.in_mib(), sum.in_mib(), device.memory.in_mib(),
          device.is_mig ? "the MPS server holds"
                        : fmt::format("the driver and the MPS server hold ({} MiB and {} MiB on an H200)",
                                      kDriverReserve.in_mib(), kServerReserve.in_mib()));
    if (share < kSmallestContext) {
      const auto least = (kSmallestContext.in_mib() + share.in_mib() - 1) / share.in_mib();
      say("a slot has {} MiB, and a CUDA context alone takes {} MiB: a container must ask for at least {} slots",
          share.in_mib(), kSmallestContext.in_mib(), least);
    } else if (share < kLargestContext)
      say("a slot has {} MiB, and every CUDA context is charged {} MiB to {} MiB of it before the program allocates "
          "anything (measured on an H200)",
          share.in_mib(), kSmallestContext.in_mib(), kLargestContext.in_mib());
  }

  void sms() {
    const PlannedDevice& device = *group_->device;
    const std::uint32_t all = device.sm_count;
    if (all == 0) return say("a slot is {} % of the SMs, whose number is not known", to_string(device.share.threads));
    PlannedDevice unrounded = device;
    unrounded.policy.rounding = config::SmRounding::kOff;
    const Percent asked = share_of(unrounded, 1).threads;
    const std::uint32_t asked_sms = sms_at(asked, all);
    const auto trusted = trusted_sm_counts(group_->gpu->compute_capability, all);
    if (asked == device.share.threads)
      say("a slot is {} % of {} SMs = {} SMs", to_string(asked), all, asked_sms);
    else
      say("a slot would be {} % of {} SMs = {} SMs, a count at which half-precision matrix products come back partly "
          "unwritten; it is rounded {} to {} % = {} SMs, which is known to compute right",
          to_string(asked), all, asked_sms, asked < device.share.threads ? "up" : "down",
          to_string(device.share.threads), device.share.sms);
    if (!is_trusted(device.share.sms, trusted))
      say("{} SMs is a count at which half-precision matrix products come back partly unwritten, with success "
          "reported; {}",
          device.share.sms,
          config_.sharing.sm_rounding == config::SmRounding::kOff ? "remove smRounding: off, or choose other replicas"
                                                                  : "choose other replicas");
    if (trusted.empty()) say("no SM count of a GPU with {} SMs has been checked for right answers", all);
    if (trusted.empty() && !device.is_mig && group_->gpu->compute_capability == kHopper)
      say("Hopper GPUs of another size leave half-precision matrix products partly unwritten at most SM counts; this "
          "one has not been measured: run gemm-check (tools/gemm-check in the sources) in a slot");
    if (device.share.sms * std::uint64_t{device.slots} > all)
      say("{} slots of {} SMs are more than the {} that are there: a share of SMs is an upper bound, and "
          "busy neighbours take turns",
          device.slots, device.share.sms, all);
  }

  void clients() {
    const PlannedDevice& device = *group_->device;
    const std::uint32_t most = client_capacity_of(config_, inventory_, *group_->gpu, device);
    const std::uint32_t known = known_client_capacity(inventory_, *group_->gpu, device);
    if (device.slots > most)
      say("{} slots are units of which a container holds several: MPS serves at most {} clients (CUDA contexts) on one "
          "device at once, so that many containers can hold them; a further one is refused while they run",
          device.slots, most);
    else
      say("MPS serves at most {} clients (CUDA contexts) on one device at once, so each of {} slots has room for {}",
          most, device.slots, most / device.slots);
    if (most > known)
      say("sharing.mps.maxClients: {} is more than the {} that this driver is known to serve", most, known);
  }

  const config::Config& config_;
  const gpu::Inventory& inventory_;
  std::vector<std::string>& out_;
  const Group* group_ = nullptr;
  std::string where_;
};

void note_policies(const config::Config& config, const Family& family, std::vector<std::string>& out) {
  if (!family.front()->one_slot_per_request)
    out.push_back(names_of(family) +
                  (config.sharing.endpoint == config::EndpointPolicy::kRelay
                       ? ": a container may hold several slots; the MPS server applies the limits of its grant to each "
                         "process that connects through the grant's endpoint"
                       : ": a container may hold several slots, so its limit is set in its environment and the MPS "
                         "daemon, which knows one limit per GPU, does not enforce it (endpoint: link)"));
  const bool spreads = config.flags.plugin.shared_devices_allocation_policy == config::AllocationPolicy::kDistributed;
  if (const PlannedResource& first = *family.front();
      spreads && !first.one_slot_per_request && first.split == config::SplitPolicy::kReject && first.devices.size() > 1)
    out.push_back(
        names_of(family) +
        ": pods are spread over the GPUs (sharedDevicesAllocationPolicy: distributed), so a container that asks for "
        "several slots is refused once no single GPU has that many free; packed fills one GPU after the other");
  const bool mig = std::ranges::any_of(family, [](const PlannedResource* resource) {
    return std::ranges::any_of(resource->devices, &PlannedDevice::is_mig);
  });
  if (mig)
    out.push_back(
        names_of(family) +
        ": a MIG device has no compute mode, so a process that does not go through MPS runs there without any "
        "limit but the device's own; computeMode: leave applies to it");
  if (config.sharing.compute_mode == config::ComputeModePolicy::kLeave && !mig)
    out.push_back(
        "the compute mode of GPUs is left alone, so a process that does not go through MPS runs there without any "
        "limit");
}

// Properties that the figures of one slot do not show.
void note_spans(const gpu::Inventory& inventory, const Plan& plan, std::vector<std::string>& out) {
  for (const PlannedPool& pool : plan.pools) {
    if (pool.devices.size() < 2) continue;
    std::vector<std::uint32_t> indices;
    for (const std::string& uuid : pool.devices)
      if (const Gpu* gpu = find_gpu(inventory, uuid); gpu != nullptr) indices.push_back(gpu->index);
    out.push_back(fmt::format(
        "{} are one MPS pool ({}): {} of several and has a limit on each; a process has one percentage of SMs for all "
        "its GPUs, the smallest; a fatal fault of one client ends the clients of all of them",
        list_of(indices), pool.id,
        plan.for_claims.empty() ? "a container may hold slots" : "a request of a claim may have devices"));
  }
}

void note_tenants(const Family& family, std::vector<std::string>& out) {
  using Threads = config::ThreadsPolicy::Kind;
  using Memory = config::MemoryPolicy::Kind;
  const PlannedResource& resource = *family.front();
  if (resource.devices.empty()) return;
  const SharePolicy& policy = resource.devices.front().policy;
  const bool threads = policy.threads.kind == Threads::kTenant;
  const bool memory = policy.memory.kind == Memory::kTenant;
  if (threads || memory)
    out.push_back(fmt::format(
        "{}: {} of a container is what its own environment says, up to the limit of its slots, and that where it says "
        "nothing",
        resource.name,
        threads && memory ? "the share of SMs and memory"
        : threads         ? "the share of SMs"
                          : "the memory"));
  if (resource.split == config::SplitPolicy::kSpan && std::ranges::any_of(resource.devices, &PlannedDevice::is_mig))
    out.push_back(resource.name +
                  ": a process sees one MIG device only, so slots of several are refused; split: span "
                  "is for whole GPUs");
}

void note_whole_gpus_with_mig(const gpu::Inventory& inventory, const PlannedResource& resource,
                              std::vector<std::string>& out) {
  std::vector<std::uint32_t> indices;
  for (const PlannedDevice& device : resource.devices) {
    const Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
    if (gpu != nullptr && gpu->mig_enabled && !device.is_mig) indices.push_back(gpu->index);
  }
  if (indices.empty()) return;
  out.push_back(
      list_of(indices) +
      ": MIG mode is enabled, and with migStrategy none a GPU is advertised whole; a container sees its first "
      "MIG device, if it has any");
}

void note_prohibited(const gpu::Inventory& inventory, const PlannedResource& resource, std::vector<std::string>& out) {
  for (const PlannedDevice& device : resource.devices) {
    const Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
    if (gpu != nullptr && gpu->compute_mode == gpu::ComputeMode::kProhibited && !device.is_mig)
      out.push_back(name_of(*gpu) + " is in compute mode PROHIBITED: no CUDA program can start on it");
  }
}

std::string in_gib(Bytes size) {
  return fmt::format("{:.1f} GiB", static_cast<double>(size.in_mib()) / 1024);
}

// The value to write for slots of at most `size`: "20G" for 20Gi if that is small enough, else in MiB.
std::string smaller_size(Bytes asked, Bytes size) {
  const std::uint64_t whole = asked.value >> 30;
  const bool decimal = asked == gib(whole) && whole * 1'000'000'000 <= size.value;
  return decimal ? fmt::format("{}G", whole) : fmt::format("{}Mi", size.in_mib());
}

}  // namespace

void note_larger_slots(const config::SharedResource& entry, const std::vector<Candidate>& candidates,
                       std::vector<std::string>& notes) {
  using Memory = config::MemoryPolicy::Kind;
  std::set<std::uint64_t> noted;  // by memory: one sentence for equal devices
  if (!entry.slot_memory || (entry.memory.kind != Memory::kEqual && entry.memory.kind != Memory::kTenant)) return;
  const Bytes asked = *entry.slot_memory;
  for (const Candidate& candidate : candidates) {
    const PlannedDevice& device = candidate.device;
    const Bytes slot = device.share.memory;
    if (slot.value <= asked.value + asked.value / 10 || !noted.insert(device.memory.value).second) continue;
    const Bytes smaller{divisible(device.memory, device.policy.reserve).value / (device.slots + 1)};
    notes.push_back(fmt::format("slotMemory {}: {} {} of {} on {}; {} slots would be {}: write {} or replicas: {}",
                                config::render_memory_size(asked), device.slots, device.slots == 1 ? "slot" : "slots",
                                in_gib(slot), candidate.gpu->name, device.slots + 1, in_gib(smaller),
                                smaller_size(asked, smaller), device.slots + 1));
  }
}

void add_notes(const config::Config& config, const gpu::Inventory& inventory, Plan& plan) {
  plan.notes.insert(plan.notes.end(), inventory.doubts.begin(), inventory.doubts.end());
  std::vector<const PlannedResource*> noted;
  for (const PlannedResource& resource : plan.resources) {
    const bool mps = resource.sharing == SharingStrategy::kMps;
    if (mps && std::ranges::find(noted, &resource) == noted.end()) {
      Family family{&resource};
      for (const PlannedResource& other : plan.resources)
        if (&other > &resource && same_family(resource, other)) family.push_back(&other);
      noted.insert(noted.end(), family.begin(), family.end());
      Notes notes(config, inventory, plan.notes);
      for (const Group& group : groups_of(family, inventory)) notes.of(group);
      note_policies(config, family, plan.notes);
      note_tenants(family, plan.notes);
    }
    note_whole_gpus_with_mig(inventory, resource, plan.notes);
    if (!mps || config.sharing.compute_mode == config::ComputeModePolicy::kLeave)
      note_prohibited(inventory, resource, plan.notes);
    if (resource.sharing == SharingStrategy::kTimeSlicing)
      plan.notes.push_back(resource.name +
                           ": time-slicing limits neither memory nor SMs; every slot can use the whole device");
  }
  note_spans(inventory, plan, plan.notes);
}

}  // namespace tranche::plan
