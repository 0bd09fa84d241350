#include "plan/notes.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "plan/devices.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::SharingStrategy;
using inventory::Gpu;

// Measured on an H200 with driver 580: what the driver and the MPS server hold of a GPU before any client does, and
// what one CUDA context is charged at the fewest and at all SMs.
constexpr Bytes kDriverReserve = mib(615);
constexpr Bytes kServerReserve = mib(66);
constexpr Bytes kSmallestContext = mib(72);
constexpr Bytes kLargestContext = mib(514);

// Devices of one resource that are alike in everything a note speaks of.
struct Group {
  const Gpu* gpu = nullptr;
  const PlannedDevice* device = nullptr;
  std::vector<std::uint32_t> indices;
};

std::vector<Group> groups_of(const PlannedResource& resource, const inventory::Inventory& inventory) {
  std::map<std::tuple<std::string, std::uint64_t, std::uint32_t, inventory::ComputeCapability>, std::size_t> seen;
  std::vector<Group> groups;
  for (const PlannedDevice& device : resource.devices) {
    const Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
    if (gpu == nullptr) continue;
    const auto [at, is_new] =
        seen.try_emplace({gpu->name, gpu->memory.value, gpu->sm_count, gpu->compute_capability}, groups.size());
    if (is_new) groups.push_back({gpu, &device, {}});
    groups[at->second].indices.push_back(gpu->index);
  }
  return groups;
}

class Notes {
 public:
  Notes(const config::Config& config, std::vector<std::string>& out) : config_(config), out_(out) {}

  void of(const Group& group) {
    group_ = &group;
    where_ = fmt::format("{} ({})", list_of(group.indices), group.gpu->name);
    memory();
    sms();
  }

 private:
  void say(std::string sentence) { out_.push_back(where_ + ": " + std::move(sentence)); }

  void memory() {
    const PlannedDevice& device = *group_->device;
    if (device.memory.value == 0)
      return say("the driver does not say how much memory it has, so memory is not limited");
    const Bytes share = device.share.memory;
    const Bytes sum{share.value * device.slots};
    const Bytes held = kDriverReserve + kServerReserve;
    if (sum + held > device.memory)
      say(
          fmt::format("{} slots of {} MiB are {} of {} MiB, which leaves no room for what the driver and the MPS "
                      "server hold ({} MiB "
                      "and {} MiB on an H200): when all slots are full, the last one to allocate gets less",
                      device.slots, share.in_mib(), sum.in_mib(), device.memory.in_mib(), kDriverReserve.in_mib(),
                      kServerReserve.in_mib()));
    if (share < kLargestContext)
      say(fmt::format(
          "a slot has {} MiB, and every CUDA context is charged {} MiB to {} MiB of it before the program allocates "
          "anything (measured on an H200)",
          share.in_mib(), kSmallestContext.in_mib(), kLargestContext.in_mib()));
  }

  void sms() {
    const PlannedDevice& device = *group_->device;
    const std::uint32_t all = device.sm_count;
    if (all == 0)
      return say(fmt::format("a slot is {} % of the SMs, whose number is not known", to_string(device.share.threads)));
    const Percent asked = threads_share(1, device.slots);
    const std::uint32_t asked_sms = sms_at(asked, all);
    const auto trusted = trusted_sm_counts(group_->gpu->compute_capability, all);
    if (asked == device.share.threads)
      say(fmt::format("a slot is {} % of {} SMs = {} SMs", to_string(asked), all, asked_sms));
    else
      say(fmt::format(
          "a slot would be {} % of {} SMs = {} SMs, a count at which half-precision matrix products come back partly "
          "unwritten; it is rounded {} to {} % = {} SMs, which is known to compute right",
          to_string(asked), all, asked_sms, asked < device.share.threads ? "up" : "down",
          to_string(device.share.threads), device.share.sms));
    if (!is_trusted(device.share.sms, trusted))
      say(fmt::format(
          "{} SMs is a count at which half-precision matrix products come back partly unwritten, with success "
          "reported; "
          "{}",
          device.share.sms,
          config_.sharing.sm_rounding == config::SmRounding::kOff ? "remove smRounding: off, or choose other replicas"
                                                                  : "choose other replicas"));
    if (trusted.empty()) say(fmt::format("no SM count of a GPU with {} SMs has been checked for right answers", all));
    if (device.share.sms * std::uint64_t{device.slots} > all)
      say(fmt::format(
          "{} slots of {} SMs are more than the {} that are there: a share of SMs is a ceiling, and busy neighbours "
          "take turns",
          device.slots, device.share.sms, all));
  }

  const config::Config& config_;
  std::vector<std::string>& out_;
  const Group* group_ = nullptr;
  std::string where_;
};

void note_policies(const config::Config& config, const PlannedResource& resource, std::vector<std::string>& out) {
  if (!resource.one_slot_per_request)
    out.push_back(resource.name +
                  ": a container may hold several slots, so its limit is set in its environment and the MPS daemon, "
                  "which knows one limit per GPU, does not enforce it");
  if (config.sharing.compute_mode == config::ComputeModePolicy::kLeave)
    out.push_back(
        "the compute mode of GPUs is left alone, so a process that does not go through MPS runs there without any "
        "limit");
}

void note_whole_gpus_with_mig(const inventory::Inventory& inventory, const PlannedResource& resource,
                              std::vector<std::string>& out) {
  std::vector<std::uint32_t> indices;
  for (const PlannedDevice& device : resource.devices) {
    const Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
    if (gpu != nullptr && gpu->mig_enabled && !device.is_mig) indices.push_back(gpu->index);
  }
  if (indices.empty()) return;
  out.push_back(list_of(indices) +
                ": MIG is on, and with migStrategy none a GPU is advertised whole; a container sees its first "
                "MIG device, if it has any");
}

void note_prohibited(const inventory::Inventory& inventory, const PlannedResource& resource,
                     std::vector<std::string>& out) {
  for (const PlannedDevice& device : resource.devices) {
    const Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
    if (gpu != nullptr && gpu->compute_mode == inventory::ComputeMode::kProhibited && !device.is_mig)
      out.push_back(fmt::format("GPU {} ({}) is in compute mode PROHIBITED: no CUDA program can start on it",
                                gpu->index, gpu->uuid));
  }
}

}  // namespace

void add_notes(const config::Config& config, const inventory::Inventory& inventory, Plan& plan) {
  plan.notes.insert(plan.notes.end(), inventory.doubts.begin(), inventory.doubts.end());
  for (const PlannedResource& resource : plan.resources) {
    const bool mps = resource.sharing == SharingStrategy::kMps;
    if (mps) {
      Notes notes(config, plan.notes);
      for (const Group& group : groups_of(resource, inventory)) notes.of(group);
      note_policies(config, resource, plan.notes);
    }
    note_whole_gpus_with_mig(inventory, resource, plan.notes);
    if (!mps || config.sharing.compute_mode == config::ComputeModePolicy::kLeave)
      note_prohibited(inventory, resource, plan.notes);
    if (resource.sharing == SharingStrategy::kTimeSlicing)
      plan.notes.push_back(resource.name +
                           ": time-slicing limits neither memory nor SMs; every slot can use the whole device");
  }
}

}  // namespace tranche::plan
