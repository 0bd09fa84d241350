// Any text is read without harm; an inventory that is accepted is written and read back to itself.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpu/inventory/inventory_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::inventory;
  const auto inventory = parse_inventory({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!inventory) {
    if (inventory.error().what.empty()) std::abort();
    return 0;
  }
  const auto again = parse_inventory(to_json(*inventory).dump(), "again");
  if (!again || *again != *inventory) std::abort();
  return 0;
}
