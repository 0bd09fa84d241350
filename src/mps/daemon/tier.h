#pragma once
// By what means MPS enforces shares on this node. v2: one limit for all clients of a daemon, lowered by the client's
// own variables; on every driver. v3: named servers and namespaces with limits of their own (the program knows -p;
// release 615); experimental. Probed from the program's own help, never concluded from a version.
// docs/internals/tiers.md has the table. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"

namespace tranche::mps {

enum class Tier { kV2, kV3 };
std::string_view to_string(Tier tier);  // "v2", "v3"

// What the control program on this node can do.
struct Abilities {
  bool v3 = false;
  friend bool operator==(const Abilities&, const Abilities&) = default;
};
Abilities abilities_in(std::string_view help);  // of "-h": which options it lists

struct TierChoice {
  Tier tier = Tier::kV2;
  std::string reason;  // why it is not what was asked for, or what to know of what is; "" = nothing
  friend bool operator==(const TierChoice&, const TierChoice&) = default;
};
TierChoice choose_tier(config::TierPolicy asked, const Abilities& abilities);
TierChoice fall_back(config::TierPolicy asked, const std::string& why);  // to v2
// A daemon of another tier runs, with clients: it stays until they have left.
TierChoice until_clients_leave(Tier running, Tier chosen);

// What a tenant can do although its grant does not allow it, one sentence each.
std::vector<std::string> not_enforced(Tier tier);

}  // namespace tranche::mps
