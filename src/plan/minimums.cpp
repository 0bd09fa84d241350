#include "plan/minimums.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::Config;
using config::SharedResource;

class Minimums {
 public:
  Minimums(const Config& config, const SharedResource& entry, const Candidate& candidate,
           std::vector<Problem>& problems)
      : config_(config), entry_(entry), device_(candidate.device), problems_(problems) {}

  void check() {
    const std::size_t before = problems_.size();
    reserve();
    if (problems_.size() == before) memory();
    sms();
  }

 private:
  std::string device() const { return fmt::format("GPU {} ({})", device_.index, device_.uuid); }
  void say(const char* field, std::string what, std::string remedy) {
    problems_.push_back(
        {Severity::kError, entry_.place, entry_path(config_, entry_, field), std::move(what), std::move(remedy)});
  }

  void reserve() {
    if (device_.memory.value == 0 || device_.policy.reserve < device_.memory) return;
    problems_.push_back({Severity::kError, entry_.place, "sharing.mps.reserve",
                         fmt::format("is {} MiB, and {} has {} MiB", device_.policy.reserve.in_mib(), device(),
                                     device_.memory.in_mib()),
                         "write a smaller reserve, or none"});
  }

  // A slot too small for a CUDA context.
  void memory() {
    const Bytes slot = device_.share.memory;
    if (slot.value == 0 || slot >= kSmallestContext || !one_slot_per_request(config_, entry_)) return;
    const Bytes all = divisible(device_.memory, device_.policy.reserve);
    const bool sized = entry_.memory.kind == config::MemoryPolicy::Kind::kSize;
    const char* field = sized ? "memory" : entry_.slot_memory ? "slotMemory" : "replicas";
    say(field,
        fmt::format("gives a slot of {} {} MiB, and a CUDA context alone takes {} MiB", device(), slot.in_mib(),
                    kSmallestContext.in_mib()),
        sized || entry_.slot_memory
            ? fmt::format("write {}: {}Mi or more", field, kSmallestContext.in_mib())
            : fmt::format("write replicas: {} or less, or failRequestsGreaterThanOne: false so that a container can "
                          "hold several slots",
                          std::max<std::uint64_t>(1, all.in_mib() / kSmallestContext.in_mib())));
  }

  void sms() {
    const config::ThreadsPolicy& threads = device_.policy.threads;
    if (threads.kind != config::ThreadsPolicy::Kind::kSms) return;
    if (threads.sms < kFewestSms && one_slot_per_request(config_, entry_))
      say("threads", fmt::format("asks {} SMs a slot, and the driver gives at least {}", threads.sms, kFewestSms),
          fmt::format("write sms: {} or more", kFewestSms));
    if (device_.sm_count != 0 && threads.sms > device_.sm_count)
      say("threads", fmt::format("asks {} SMs a slot, and {} has {}", threads.sms, device(), device_.sm_count),
          fmt::format("write sms: {} or less", device_.sm_count));
  }

  const Config& config_;
  const SharedResource& entry_;
  const PlannedDevice& device_;
  std::vector<Problem>& problems_;
};

}  // namespace

void check_minimums(const Config& config, const Taken& taken, std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  for (const Candidate& candidate : taken.candidates) {
    Minimums(config, *taken.entry, candidate, problems).check();
    if (problems.size() > before) return;
  }
}

}  // namespace tranche::plan
