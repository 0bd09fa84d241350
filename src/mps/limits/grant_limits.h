#pragma once
// What a grant is worth on each of its devices, as the node agent tells it with openEndpoint and as it is kept beside
// the endpoint, and what the daemon is told while a client of that grant comes in. Tenants never see or write any of
// it.
//
// The file `pools/<pool>/limits/<grant>`: one device a line, "<UUID> <memory MiB> <threads, hundredths of a percent>",
// 0 = not limited. Whatever is not exactly that is an error that names the line: a grant whose limits cannot be read is
// not let in. Pure; fuzzed: parse ∘ render is the identity.
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
// What a device that is not limited is told: more than any GPU has. Taking a limit away would leave nothing to read
// back.
inline constexpr Bytes kNoMemoryLimit = gib(1024);
// For a device of the pool that the grant does not hold: too little for a context.
inline constexpr Bytes kNotTheirs = mib(1);

// kInvalid: no device, too many, one twice, a name that is no device's, more than 100 percent, more memory than there
// is.
Status check_limits(const GrantLimits& limits);

std::string render_limits(const GrantLimits& limits);
Result<GrantLimits> parse_limits(std::string_view text);

// What the daemon and its servers are told for clients of such a grant: a limit on every device of the pool. The thread
// percentage is one for all devices of a process, so it is the grant's smallest. kInvalid: it holds no device of the
// pool.
Result<DaemonLimits> limits_for(const GrantLimits& grant, std::span<const std::string> pool_devices);
// The same for clients that are worth what the pool allows at most.
DaemonLimits limits_for(const DaemonLimits& own, std::span<const std::string> pool_devices);

}  // namespace tranche::mps
