#pragma once
// The limits of each grant on each device at the time of its allocation: a changed configuration does not change them
// for a running pod. The agent writes them to `grants.txt` in its run directory, so that a restart does not lose them.
//
// A line for each grant and device:
//   <grant> <device UUID> <pool> <resource> <bytes> <threads> <tenant>
// Bytes and threads (hundredths of a percent) 0 = not limited; tenant "-" = kubelet has not named the container. The
// resource of a claim is its driver's name, which has no slash. Pure; fuzzed: parse_shares ∘ render_shares is the
// identity.
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

std::string render_shares(const Shares& shares);
// Leaves out lines that it cannot read.
Shares parse_shares(std::string_view text);

// A grant of a container in kubelet's list, or of a claim.
struct TenantGrant {
  std::string container;  // the same for grants of one tenant: grants/ledger.h, tenant_key()
  std::string grant;
};
// Records in `shares` which grants belong to one tenant.
void join_grants(Shares& shares, const std::vector<TenantGrant>& held);
// A grant that is given again has no tenant until kubelet names one; grants of the tenant that it named are parted.
void part_grant(Shares& shares, const std::string& grant);

}  // namespace tranche::grants
