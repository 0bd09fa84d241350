#pragma once
// From node.yaml and the profiles to a complete State. Reads files; used once, when a node's state is created.
#include <expected>
#include <string>

#include "state_file.h"

namespace tranche::sim {

// The error lists all Problems of node.yaml and of the profiles that it names, one per line.
std::expected<void, std::string> fill_from_yaml(const std::string& dir, State& state);

}  // namespace tranche::sim
