#pragma once
// Private to doctor/verify/live: the places to try limits from (cluster, container, node), each of which adds findings
// while it runs. Each function runs the loop while it waits. One thread.
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "doctor/finding.h"
#include "doctor/verify/live/verify_program.h"
#include "kube/access.h"

namespace tranche::doctor {

// Paths of this process.
struct VerifyPlaces {
  std::string mps_root;       // as the node names it
  std::string mps_root_here;  // as this process sees it
  std::string driver_root;    // of the driver's files
};

struct ClusterLook {
  kube::Access access;
  std::shared_ptr<const nlohmann::json> agent;   // the pod of the status page; null: not readable
  std::shared_ptr<const nlohmann::json> status;  // of the node agent
};

// Creates probe pods on the node, waits for them, and deletes them.
Status try_from_outside(const VerifyOptions& options, const ClusterLook& cluster, Findings& checks);
// In a container that holds shares of MPS.
Status try_inside(const VerifyOptions& options, Findings& checks);
// On the node, by slots that no pod holds.
Status try_limits(const VerifyOptions& options, const VerifyPlaces& places, Findings& checks);

}  // namespace tranche::doctor
