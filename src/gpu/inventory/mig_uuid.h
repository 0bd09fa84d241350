#pragma once
// The GPU and instances of a MIG device: as the driver reports them, else from the name that drivers before 465 give
// it, "MIG-GPU-<uuid of the GPU>/<GPU instance>/<compute instance>". Pure; fuzzed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/inventory/inventory.h"

namespace tranche::inventory {

inline constexpr std::uint32_t kNoInstance = 0xffffffff;  // the driver's number for "no instance", or not known

struct LegacyMigUuid {
  std::string gpu_uuid;  // "GPU-…"
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
  friend bool operator==(const LegacyMigUuid&, const LegacyMigUuid&) = default;
};

std::optional<LegacyMigUuid> parse_legacy_mig_uuid(std::string_view text);

struct MigPlacement {
  std::uint32_t gpu_instance = kNoInstance;
  std::uint32_t compute_instance = kNoInstance;
  friend bool operator==(const MigPlacement&, const MigPlacement&) = default;
};

// `gi` and `ci` are the values from the driver, absent if it returned none. A name that belongs to another GPU is
// ignored. Either both instances are known or neither.
MigPlacement place_mig(std::string_view mig_uuid, std::string_view gpu_uuid, std::optional<std::uint32_t> gi,
                       std::optional<std::uint32_t> ci);

// An event that names instances cannot be attributed to a device without a placement.
inline bool is_placed(const MigDevice& mig) {
  return mig.gpu_instance != kNoInstance && mig.compute_instance != kNoInstance;
}

}  // namespace tranche::inventory
