#pragma once
// `<mps-root>/other-holders`: the devices that containers hold without MPS, one UUID a line. The node agent writes it;
// `tranche mps` reads it and starts no daemon on these devices, because the daemon's compute mode would prevent their
// holders from starting new processes. Pure; fuzzed: parse ∘ render is the identity.
#include <set>
#include <string>
#include <string_view>

namespace tranche::mps {

inline constexpr const char* kOtherHoldersFile = "other-holders";

std::string render_other_holders(const std::set<std::string>& devices);
std::set<std::string> parse_other_holders(std::string_view text);  // lines without a device UUID are skipped

}  // namespace tranche::mps
