#pragma once
// The device ids in kubelet's requests: "<uuid>" for an undivided device, "<uuid>::<n>" for slot n of a divided one,
// exactly as NVIDIA's. Pure; fuzzed: parse ∘ render is the identity.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace tranche::plan {

struct SlotId {  // a view into the text
  std::string_view uuid;
  std::optional<std::uint32_t> ordinal;
  friend auto operator<=>(const SlotId&, const SlotId&) = default;
};

std::string render(const SlotId& id);
std::optional<SlotId> parse_slot_id(std::string_view text);
bool is_slot_of(const PlannedDevice& device, std::string_view id);

// Of all slots of a device, in their order.
std::vector<std::string> slot_ids(const PlannedDevice& device);

// The device part only: the text before the first "::".
std::string_view device_of(std::string_view slot_id);

}  // namespace tranche::plan
