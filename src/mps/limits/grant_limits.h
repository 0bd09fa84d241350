#pragma once
// The limits of a grant on each of its devices, as the node agent sends them with openEndpoint and as they are stored
// beside the endpoint; and the limits that the daemon holds while a client of that grant connects. Tenants cannot read
// or write them.
//
// The file `pools/<pool>/limits/<grant>`: one device a line, "<UUID> <memory MiB> <threads, hundredths of a percent>",
// 0 = not limited. Any other text is an error that names the line: a grant whose limits cannot be read admits no
// clients. Pure; fuzzed: parse ∘ render is the identity.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "mps/limits/limits.h"

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

// kInvalid: no device, too many, a duplicate, a name that is not a GPU UUID, more than 100 percent, or more memory than
// exists.
Status check_limits(const GrantLimits& limits);

std::string render_limits(const GrantLimits& limits);
Result<GrantLimits> parse_limits(std::string_view text);

// The limits that the daemon and its servers hold for clients of this grant: one on every device of the pool. The
// driver applies the limit of the pool's n-th device to the n-th device that the client sees (measured:
// docs/internals/evidence/shares.md), and a container sees the devices that it holds. The pool's first devices
// therefore get the limits of the grant's devices, and the others the smallest of these, for a client that sees more.
// Such a client may take memory of a device that it does not hold; the guard ends it. The thread percentage applies to
// a whole process on all devices, so it is the grant's smallest. kInvalid: the grant holds no device of the pool.
Result<DaemonLimits> limits_for(const GrantLimits& grant, std::span<const std::string> pool_devices);
// The same for clients with the pool's own limits, which are its largest.
DaemonLimits limits_for(const DaemonLimits& own, std::span<const std::string> pool_devices);

}  // namespace tranche::mps
