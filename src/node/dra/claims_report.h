#pragma once
// The claims of this node, for the status document, and for code that has to distinguish endpoints of claims from those
// of slots. Values.
#include <set>
#include <string>

#include "dra/prepare.h"
#include "kubelet/dra_server.h"

namespace tranche::agent {

// Whose the node's claims are (node/dra/claims_lock.h). Unless they are this agent's, what it knows of them may be out
// of date.
enum class ClaimsStanding { kWaiting, kOurs, kGivenUp };  // kWaiting: an older agent's; kGivenUp: a newer one's

struct ClaimsReport {
  std::string driver;
  host::DraServerState server;
  dra::PreparedClaims prepared;
  std::set<std::string> grants;  // ids of the claims' endpoints
  std::string status_problem;    // why status.devices of a claim is not written; "" = all are
  ClaimsStanding standing = ClaimsStanding::kOurs;
};

}  // namespace tranche::agent
