// Replies about SM partitions: no crash, and an id that was read is the one that it prints as.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/partitions.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::mps;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto rows = parse_partitions(text); rows && rows->size() > size) std::abort();
  if (const auto id = parse_added_partition(text)) {
    const auto again = parse_partition_id(to_string(*id));
    if (!again || *again != *id) std::abort();
  }
  return 0;
}
