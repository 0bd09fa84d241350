#pragma once
// What the node reports about Dynamic Resource Allocation: its claims, also for code that has to distinguish endpoints
// of claims from those of slots, and the state of publishing ResourceSlices (slice_publisher.h). Values.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dra/prepare.h"
#include "kubelet/dra_server.h"

namespace tranche::node {

// Whose the node's claims are (ClaimsLock). Unless they are this agent's, what it knows of them may be out
// of date.
enum class ClaimsStanding { kWaiting, kOurs, kGivenUp };  // kWaiting: an older agent's; kGivenUp: a newer one's

struct ClaimsReport {
  std::string driver;
  kubelet::DraServerState server;
  dra::PreparedClaims prepared;
  std::string status_problem;  // why status.devices of a claim is not written; "" = all are
  ClaimsStanding standing = ClaimsStanding::kOurs;
};

struct SliceReport {
  std::string state = "off";  // "off", "waiting" (for the API server), "publishing", "published", "removing", "failing"
  std::string problem;        // why it waits or fails
  std::string driver;         // "gpu.tranche.io"
  std::size_t devices = 0;    // that should be published
  std::size_t slices = 0;     // that the API server has
  std::int64_t generation = 0;
  std::uint64_t writes = 0;           // creates, updates and deletes that succeeded
  std::vector<std::string> notes;     // devices that are left out, and why
  std::vector<std::string> withheld;  // what is not published because the API server would drop a part of it
};

}  // namespace tranche::node
