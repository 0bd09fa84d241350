#include "grants/change/step_text.h"

#include <fmt/format.h>

#include "base/text.h"
#include "plan/devices.h"

namespace tranche::change {

using config::SharingStrategy;

std::string slots_text(std::uint64_t count) {
  return fmt::format("{} slot{}", count, count == 1 ? "" : "s");
}

std::string name_of(const std::vector<const plan::PlannedDevice*>& devices) {
  std::vector<std::uint32_t> numbers;
  std::vector<std::string> indices;
  for (const auto* device : devices) {
    indices.push_back(device->index);
    if (const auto number = parse_unsigned(device->index)) numbers.push_back(static_cast<std::uint32_t>(*number));
  }
  if (numbers.size() == indices.size()) return plan::list_of(numbers);
  return (indices.size() == 1 ? "GPU " : "GPUs ") + join(indices, ", ");
}

std::string limits_text(const plan::ShareLimits& limits) {
  const std::string memory =
      limits.memory.value == 0 ? "memory without a limit" : fmt::format("{} MiB", limits.memory.in_mib());
  if (limits.threads.hundredths == 0) return memory;
  if (limits.sms == 0) return fmt::format("{} and {} % of the SMs", memory, to_string(limits.threads));
  return fmt::format("{} and {} SMs ({} %)", memory, limits.sms, to_string(limits.threads));
}

std::string text_of(const SharingMode& mode) {
  switch (mode.strategy) {
    case SharingStrategy::kNone:
      return "exclusive";
    case SharingStrategy::kTimeSlicing:
      return "time-slicing";
    case SharingStrategy::kMps:
      break;
  }
  return "MPS";
}

std::string change_text(const SharingMode& before, const SharingMode& after) {
  if (before.strategy == SharingStrategy::kMps && after.strategy == SharingStrategy::kMps)
    return fmt::format("MPS pool {} → MPS pool {}", before.pool, after.pool);
  return text_of(before) + " → " + text_of(after);
}

}  // namespace tranche::change
