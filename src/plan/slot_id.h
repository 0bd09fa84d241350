#pragma once
// The device ids in kubelet's requests: "<uuid>" for an undivided device, "<uuid>::<n>" for slot n of a divided one,
// exactly as NVIDIA's. Pure; fuzzed: parse ∘ render is the identity.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::plan {

struct SlotId {
  std::string uuid;
  std::optional<std::uint32_t> ordinal;
  friend auto operator<=>(const SlotId&, const SlotId&) = default;
};

std::string render(const SlotId& id);
std::optional<SlotId> parse_slot_id(std::string_view text);

// The same, as views into the text: for lists of a thousand ids.
struct SlotRef {
  std::string_view uuid;
  std::optional<std::uint32_t> ordinal;
};
std::optional<SlotRef> read_slot_id(std::string_view text);

// The device part only: the text before the first "::".
std::string_view device_of(std::string_view slot_id);

}  // namespace tranche::plan
