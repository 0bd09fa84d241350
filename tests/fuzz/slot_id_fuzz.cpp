// parse ∘ render is the identity on every id that is one, and device_of agrees with parse.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plan/slot_id.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::plan;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto id = parse_slot_id(text);
  if (device_of(text).size() > text.size()) std::abort();
  if (!id) return 0;
  if (render(*id) != text || id->uuid != device_of(text)) std::abort();
  return 0;
}
