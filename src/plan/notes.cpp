#include "plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "config/document/amounts.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::SharingStrategy;
using gpu::Gpu;

constexpr gpu::ComputeCapability kHopper{9, 0};

// One sentence, and the GPUs or the resources that it is about: in common where it is equal.
struct Note {
  std::string before, after;  // of what it is about
  std::vector<std::uint32_t> gpus;
  std::vector<std::string> resources;

  std::string text() {
    if (gpus.empty() && resources.empty()) return after;
    std::ranges::sort(gpus);  // names of resources sort 10 before 2
    if (resources.empty()) return before + list_of(gpus) + after;
    if (resources.size() < 4)
      return text_of_all(std::vector<std::string_view>(resources.begin(), resources.end()), " and ") + after;
    return fmt::format("{} and {} others like it{}", resources.front(), resources.size() - 1, after);
  }
};

void add(auto& list, const auto& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

class Notes {
 public:
  Notes(const config::Config& config, const gpu::Inventory& inventory) : config_(config), inventory_(inventory) {}

  void of(const Gpu& gpu, const PlannedDevice& device) {
    gpu_ = &gpu;
    device_ = &device;
    memory();
    sms();
    clients();
  }

  Note& note(std::string after, std::string before = {}) {
    const auto known =
        std::ranges::find_if(notes_, [&](const Note& note) { return note.after == after && note.before == before; });
    return known != notes_.end() ? *known : notes_.emplace_back(std::move(before), std::move(after));
  }

  void add_to(std::vector<std::string>& out) {
    for (Note& note : notes_) out.push_back(note.text());
  }

 private:
  template <class... Values>
  void say(fmt::format_string<Values...> sentence, Values&&... values) {
    const std::string each = device_->is_mig ? fmt::format(", {} MiB each", device_->memory.in_mib()) : "";
    const std::string text = fmt::format(sentence, std::forward<Values>(values)...);
    add(note(fmt::format(" ({}{}): {}", gpu_->name, each, text), device_->is_mig ? "MIG devices of " : "").gpus,
        gpu_->index);
  }

  void memory() {
    const PlannedDevice& device = *device_;
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
    const PlannedDevice& device = *device_;
    const std::uint32_t all = device.sm_count;
    if (all == 0) return say("a slot is {} % of the SMs, whose number is not known", to_string(device.share.threads));
    PlannedDevice unrounded = device;
    unrounded.policy.rounding = config::SmRounding::kOff;
    const Percent asked = share_of(unrounded, 1).threads;
    const std::uint32_t asked_sms = sms_at(asked, all);
    const auto trusted = trusted_sm_counts(gpu_->compute_capability, all);
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
    if (trusted.empty() && !device.is_mig && gpu_->compute_capability == kHopper)
      say("Hopper GPUs of another size leave half-precision matrix products partly unwritten at most SM counts; this "
          "one has not been measured: run gemm-check (tools/gemm-check in the sources) in a slot");
    if (device.share.sms * std::uint64_t{device.slots} > all)
      say("{} slots of {} SMs are more than the {} that are there: a share of SMs is an upper bound, and "
          "busy neighbours take turns",
          device.slots, device.share.sms, all);
  }

  void clients() {
    const PlannedDevice& device = *device_;
    const std::uint32_t most = client_capacity_of(config_, inventory_, *gpu_, device);
    const std::uint32_t known = known_client_capacity(inventory_, *gpu_, device);
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
  std::vector<Note> notes_;
  const Gpu* gpu_ = nullptr;
  const PlannedDevice* device_ = nullptr;
};

void note_policies(const config::Config& config, const PlannedResource& resource, Notes& notes) {
  const auto say = [&](std::string sentence) { add(notes.note(std::move(sentence)).resources, resource.name); };
  if (!resource.one_slot_per_request)
    say(config.sharing.endpoint == config::EndpointPolicy::kRelay
            ? ": a container may hold several slots; the MPS server applies the limits of its grant to each process "
              "that "
              "connects through the grant's endpoint"
            : ": a container may hold several slots, so its limit is set in its environment and the MPS daemon, which "
              "knows one limit per GPU, does not enforce it (endpoint: link)");
  const bool spreads = config.flags.plugin.shared_devices_allocation_policy == config::AllocationPolicy::kDistributed;
  if (spreads && !resource.one_slot_per_request && resource.split == config::SplitPolicy::kReject &&
      resource.devices.size() > 1)
    say(": pods are spread over the GPUs (sharedDevicesAllocationPolicy: distributed), so a container that asks for "
        "several slots is refused once no single GPU has that many free; packed fills one GPU after the other");
  const bool mig = std::ranges::any_of(resource.devices, &PlannedDevice::is_mig);
  if (mig)
    say(": a MIG device has no compute mode, so a process that does not go through MPS runs there without any limit "
        "but "
        "the device's own; computeMode: leave applies to it");
  else if (config.sharing.compute_mode == config::ComputeModePolicy::kLeave)
    notes.note(
        "the compute mode of GPUs is left alone, so a process that does not go through MPS runs there without any "
        "limit");
  const SharePolicy& policy = resource.devices.front().policy;
  const bool threads = policy.threads.kind == config::ThreadsPolicy::Kind::kTenant;
  const bool memory = policy.memory.kind == config::MemoryPolicy::Kind::kTenant;
  if (threads || memory)
    say(fmt::format(
        ": {} of a container is what its own environment says, up to the limit of its slots, and that where "
        "it says nothing",
        !memory    ? "the share of SMs"
        : !threads ? "the memory"
                   : "the share of SMs and memory"));
  if (mig && resource.split == config::SplitPolicy::kSpan)
    say(": a process sees one MIG device only, so slots of several are refused; split: span is for whole GPUs");
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
  Notes notes(config, inventory);
  for (const PlannedResource& resource : plan.resources) {
    const bool mps = resource.sharing == SharingStrategy::kMps;
    const bool in_any_mode = !mps || config.sharing.compute_mode == config::ComputeModePolicy::kLeave;
    for (const PlannedDevice& device : resource.devices) {
      const Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
      if (gpu == nullptr) continue;
      if (mps) notes.of(*gpu, device);
      if (device.is_mig) continue;
      if (gpu->mig_enabled)
        add(notes
                .note(
                    ": MIG mode is enabled, and with migStrategy none a GPU is advertised whole; a container sees its "
                    "first MIG device, if it has any")
                .gpus,
            gpu->index);
      if (in_any_mode && gpu->compute_mode == gpu::ComputeMode::kProhibited)
        notes.note(name_of(*gpu) + " is in compute mode PROHIBITED: no CUDA program can start on it");
    }
    if (mps) note_policies(config, resource, notes);
    if (resource.sharing == SharingStrategy::kTimeSlicing)
      add(notes.note(": time-slicing limits neither memory nor SMs; every slot can use the whole device").resources,
          resource.name);
  }
  notes.add_to(plan.notes);
  note_spans(inventory, plan, plan.notes);
}

}  // namespace tranche::plan
