#pragma once
// Private to doctor/verify/live: the places on the node to try limits from, each of which adds findings while it runs.
// Each function runs the loop while it waits. One thread.
#include <string>

#include "base/result.h"
#include "doctor/finding.h"
#include "doctor/verify/live/verify_program.h"

namespace tranche::doctor {

// Paths of this process.
struct VerifyPlaces {
  std::string mps_root;       // as the node names it
  std::string mps_root_here;  // as this process sees it
  std::string driver_root;    // of the driver's files
};

// In a container that holds shares of MPS.
Status try_inside(const VerifyOptions& options, Findings& checks);
// On the node, by slots that no pod holds.
Status try_limits(const VerifyOptions& options, const VerifyPlaces& places, Findings& checks);

}  // namespace tranche::doctor
