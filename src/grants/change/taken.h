#pragma once
// What a forced change took from containers, written down: the agent may be started anew, and a container that lost its
// share must not hold up the next change, nor be told twice. One line a grant and device:
// `<grant> <device UUID> told|untold <from what to what>`. Pure; fuzzed: parse ∘ render is the identity.
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tranche::change {

struct Taken {
  std::string text;   // "time-slicing → MPS"
  bool told = false;  // its pod was told
  friend bool operator==(const Taken&, const Taken&) = default;
};
using TakenShares = std::map<std::pair<std::string, std::string>, Taken>;  // by grant and device UUID

std::string render_taken(const TakenShares& shares);
TakenShares parse_taken(std::string_view text);  // lines that are not understood are passed over

}  // namespace tranche::change
