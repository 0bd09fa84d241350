#pragma once
// Puts tranche-drain where containers get it from: a folder of the node that Allocate mounts read-only at
// /run/tranche/bin. Not below /run, which many nodes mount without the right to execute.
#include <string>

namespace tranche::agent {

struct DrainOffer {
  std::string dir;      // the folder to mount; "" = nothing is offered
  std::string problem;  // why not; "" also when nobody wanted it
  friend bool operator==(const DrainOffer&, const DrainOffer&) = default;
};

// `dir` "" = not wanted. The program is taken from `source`, by default tranche-drain beside this process' executable,
// and replaced as a whole when it differs; containers that run see the new one. `dir` is the same path here and on the
// node: an agent in a container has the node's folder mounted there, and offers nothing when it has not.
DrainOffer install_drain_program(const std::string& dir, const std::string& source = {});

}  // namespace tranche::agent
