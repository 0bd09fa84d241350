#pragma once
// The limits of each grant on each device, as they were when it was given: a changed configuration does not change them
// for a running pod. With them, what forced changes took from containers. The agent writes both to `grants.txt` in its
// run directory, so that a restart loses neither.
//
// A line for each grant and device:
//   <grant> <device UUID> <pool> <resource> <bytes> <threads> <tenant>
//   taken <grant> <device UUID> told|untold <from what to what>
// Bytes and threads (hundredths of a percent) 0 = not limited; tenant "-" = kubelet has not named the container. The
// resource of a claim is its driver's name, which has no slash. Pure; fuzzed: parse_kept ∘ render_kept is the identity.
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace tranche::grants {

using GrantOnDevice = std::pair<std::string, std::string>;  // grant, device UUID

struct Share {
  std::string pool;
  std::string resource;
  Bytes memory;
  Percent threads{};
  // Which grants are of one container: the first of their ids. "" until kubelet names the container.
  std::string tenant{};
  friend bool operator==(const Share&, const Share&) = default;
};
using Shares = std::map<GrantOnDevice, Share>;

// The share is its container's no longer, though kubelet still lists its slots as held.
struct Taken {
  std::string text;       // "time-slicing → MPS"
  bool reported = false;  // an event of its pod reports it
  friend bool operator==(const Taken&, const Taken&) = default;
};
using TakenShares = std::map<GrantOnDevice, Taken>;

struct Kept {
  Shares shares;
  TakenShares taken;
  friend bool operator==(const Kept&, const Kept&) = default;
};
std::string render_kept(const Kept& kept);
// Lines that are not understood are left out.
Kept parse_kept(std::string_view text);

// A container's grants as kubelet lists them, or one of a claim.
struct TenantGrant {
  std::string container;  // the same for grants of one tenant: live/holders.h, tenant_key()
  std::string grant;
};
// Writes into `shares` which grants are of one tenant.
void join_grants(Shares& shares, const std::vector<TenantGrant>& held);
// A grant that is given again has no tenant until kubelet names it; grants that it was joined with stand alone.
void part_grant(Shares& shares, const std::string& grant);

}  // namespace tranche::grants
