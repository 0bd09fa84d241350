#include "plan/slot_id.h"

#include <fmt/format.h>

#include <limits>

#include "base/text.h"

namespace tranche::plan {
namespace {

constexpr std::string_view kSeparator = "::";

}  // namespace

std::string render(const SlotId& id) {
  return id.ordinal ? fmt::format("{}{}{}", id.uuid, kSeparator, *id.ordinal) : std::string(id.uuid);
}

std::optional<SlotId> parse_slot_id(std::string_view text) {
  const auto at = text.find(kSeparator);
  if (at == std::string_view::npos) return text.empty() ? std::nullopt : std::optional(SlotId{text, {}});
  const std::string_view digits = text.substr(at + kSeparator.size());
  const auto ordinal = parse_unsigned(digits);
  const bool one_spelling = digits.size() == 1 || !digits.starts_with('0');  // "::01" would be a second name of slot 1
  if (at == 0 || !ordinal || !one_spelling || *ordinal > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return SlotId{text.substr(0, at), static_cast<std::uint32_t>(*ordinal)};
}

bool is_slot_of(const PlannedDevice& device, std::string_view id) {
  const auto slot = parse_slot_id(id);
  return slot && slot->uuid == device.uuid && slot->ordinal.has_value() == device.replicated &&
         slot->ordinal.value_or(0) < device.slots;
}

std::vector<std::string> slot_ids(const PlannedDevice& device) {
  std::vector<std::string> ids;
  for (std::uint32_t n = 0; n < device.slots; ++n)
    ids.push_back(render({device.uuid, device.replicated ? std::optional(n) : std::nullopt}));
  return ids;
}

std::string_view device_of(std::string_view slot_id) {
  return slot_id.substr(0, slot_id.find(kSeparator));
}

}  // namespace tranche::plan
