#pragma once
// The limits of a grant on each of its devices, as the node agent sends them with openEndpoint and as they are stored
// beside the endpoint (requests.h). Tenants cannot read or write them. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tranche::mps {

struct GrantLimit {
  std::string uuid;
  Bytes memory;     // whole MiB; 0 = not limited
  Percent threads;  // 0 = not limited
  friend bool operator==(const GrantLimit&, const GrantLimit&) = default;
};
using GrantLimits = std::vector<GrantLimit>;

inline constexpr std::size_t kMostGrantDevices = 64;
// Set for a device without a limit: more memory than any GPU has. Removing a limit instead would leave nothing to read
// back.
inline constexpr Bytes kNoMemoryLimit = gib(1024);

// GPU-… or MIG-…, also in the old form (MIG-GPU-…/1/0). Only these, because the name becomes part of a command.
bool is_device_name(std::string_view name);

// kInvalid: no device, too many, a duplicate, a name that is not a GPU UUID, more than 100 percent, or more memory than
// exists.
Status check_limits(const GrantLimits& limits);

}  // namespace tranche::mps
