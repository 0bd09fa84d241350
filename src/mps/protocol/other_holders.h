#pragma once
// `<mps-root>/other-holders`: the devices of which containers hold something that MPS did not give them, one UUID a
// line, written by the node agent and read by `tranche mps`, which starts no daemon on them: with its compute mode
// their holders could start nothing any more. Pure; fuzzed: parse ∘ render is the identity.
#include <set>
#include <string>
#include <string_view>

namespace tranche::mps {

inline constexpr const char* kOtherHoldersFile = "other-holders";

std::string render_other_holders(const std::set<std::string>& devices);
std::set<std::string> parse_other_holders(std::string_view text);  // what is no UUID of a device is passed over

}  // namespace tranche::mps
