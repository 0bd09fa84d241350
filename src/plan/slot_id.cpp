#include "plan/slot_id.h"

#include <limits>

#include "base/text.h"

namespace tranche::plan {
namespace {

constexpr std::string_view kSeparator = "::";

}  // namespace

std::string render(const SlotId& id) {
  return id.ordinal ? id.uuid + std::string(kSeparator) + std::to_string(*id.ordinal) : id.uuid;
}

std::optional<SlotRef> read_slot_id(std::string_view text) {
  const auto at = text.find(kSeparator);
  if (at == std::string_view::npos) return text.empty() ? std::nullopt : std::optional(SlotRef{text, {}});
  const std::string_view digits = text.substr(at + kSeparator.size());
  const auto ordinal = parse_unsigned(digits);
  const bool one_spelling = digits.size() == 1 || !digits.starts_with('0');  // "::01" would be a second name of slot 1
  if (at == 0 || !ordinal || !one_spelling || *ordinal > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return SlotRef{text.substr(0, at), static_cast<std::uint32_t>(*ordinal)};
}

std::optional<SlotId> parse_slot_id(std::string_view text) {
  const auto ref = read_slot_id(text);
  return ref ? std::optional(SlotId{std::string(ref->uuid), ref->ordinal}) : std::nullopt;
}

std::string_view device_of(std::string_view slot_id) {
  return slot_id.substr(0, slot_id.find(kSeparator));
}

}  // namespace tranche::plan
