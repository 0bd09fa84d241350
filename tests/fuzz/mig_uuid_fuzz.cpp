// What is read from an old MIG name can be written as a name that says the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpu/inventory/mig_uuid.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::inventory;
  const auto named = parse_legacy_mig_uuid({reinterpret_cast<const char*>(data), size});
  if (!named) return 0;
  const std::string text = "MIG-" + named->gpu_uuid + "/" + std::to_string(named->gpu_instance) + "/" +
                           std::to_string(named->compute_instance);
  if (parse_legacy_mig_uuid(text) != named) std::abort();
  const MigPlacement place = place_mig(text, named->gpu_uuid, std::nullopt, std::nullopt);
  if (place != MigPlacement{named->gpu_instance, named->compute_instance}) std::abort();
  return 0;
}
