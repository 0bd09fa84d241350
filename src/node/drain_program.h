#pragma once
// Installs tranche-drain for containers: in a folder of the node that Allocate mounts read-only at /run/tranche/bin.
// Not below /run, which many nodes mount with noexec.
#include <string>

#include "base/result.h"

namespace tranche::node {

// `dir` "" = not requested: does nothing. Copies the program from `source`, by default tranche-drain beside this
// process's executable, and replaces it atomically if it differs; running containers see the new one. `dir` is the same
// path here and on the node: an agent in a container must have the node's folder mounted there, otherwise this fails.
Status install_drain_program(const std::string& dir, const std::string& source = {});

}  // namespace tranche::node
