#include "grants/change/words.h"

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

std::string worth_text(const plan::ShareLimits& worth) {
  const std::string memory =
      worth.memory.value == 0 ? "memory without a limit" : fmt::format("{} MiB", worth.memory.in_mib());
  if (worth.threads.hundredths == 0) return memory;
  if (worth.sms == 0) return fmt::format("{} and {} % of the SMs", memory, to_string(worth.threads));
  return fmt::format("{} and {} SMs ({} %)", memory, worth.sms, to_string(worth.threads));
}

std::string text_of(const Means& means) {
  switch (means.strategy) {
    case SharingStrategy::kNone:
      return "exclusive";
    case SharingStrategy::kTimeSlicing:
      return "time-slicing";
    case SharingStrategy::kMps:
      break;
  }
  return "MPS";
}

std::string change_text(const Means& before, const Means& after) {
  if (before.strategy == SharingStrategy::kMps && after.strategy == SharingStrategy::kMps)
    return fmt::format("MPS pool {} → MPS pool {}", before.pool, after.pool);
  return text_of(before) + " → " + text_of(after);
}

}  // namespace tranche::change
