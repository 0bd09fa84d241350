#pragma once
// How MPS enforces shares on this node. v2: one limit for all clients of a daemon, which the client's own variables can
// lower; works on every driver. v3: named servers and namespaces with limits of their own (the program knows -p;
// release 615); experimental. Detected from the program's own help, never inferred from a version.
// docs/internals/tiers.md has the table. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"

namespace tranche::mps {

enum class Tier { kV2, kV3 };
std::string_view to_string(Tier tier);  // "v2", "v3"

// What the control program on this node supports.
struct Abilities {
  bool v3 = false;
  friend bool operator==(const Abilities&, const Abilities&) = default;
};
Abilities abilities_in(std::string_view help);  // of "-h": the options that it lists

struct TierChoice {
  Tier tier = Tier::kV2;
  std::string reason;  // why it differs from the requested tier, or a note on the chosen one; "" = none
  friend bool operator==(const TierChoice&, const TierChoice&) = default;
};
TierChoice choose_tier(config::TierPolicy asked, const Abilities& abilities);
TierChoice fall_back(config::TierPolicy asked, const std::string& why);  // to v2
// A daemon of another tier still has clients: it keeps running until they exit.
TierChoice until_clients_leave(Tier running, Tier chosen);

// What a tenant can do although its grant does not allow it, one sentence each.
std::vector<std::string> not_enforced(Tier tier);

}  // namespace tranche::mps
