#pragma once
// For tests: prefer() of ids that are strings.
#include "grants/allocate/prefer.h"

namespace tranche::grants {

inline Result<std::vector<std::string>> prefer(const plan::PlannedResource& resource, const gpu::Inventory& inventory,
                                               std::span<const std::string> available,
                                               std::span<const std::string> must_include, std::uint32_t size,
                                               config::AllocationPolicy policy, const Around& around = {}) {
  const std::vector<std::string_view> offered(available.begin(), available.end());
  const std::vector<std::string_view> required(must_include.begin(), must_include.end());
  return prefer(resource, inventory, std::span<const std::string_view>(offered),
                std::span<const std::string_view>(required), size, policy, around);
}

}  // namespace tranche::grants
