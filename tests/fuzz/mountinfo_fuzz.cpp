// Any text as a process' mount table: a door of the allowed shape below where the doors are, or none; and as our own,
// from which the place of the doors is read.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guard/attribution.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto check = [&](const tranche::guard::DoorsAt& doors) {
    const auto door = tranche::guard::door_of_mountinfo(text, "/run/tranche/mps", doors);
    if (!door) return;
    if (door->grant.size() != 16 || door->pool.empty() || door->pool.find('/') != std::string::npos) std::abort();
  };
  check({"0:21", "/nvidia/mps"});
  if (const auto doors = tranche::guard::where_doors_are(text, "/run/nvidia/mps")) check(*doors);
  return 0;
}
