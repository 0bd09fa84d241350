#pragma once
// Private to agent/verify: the three ways of looking. Each tells every check as it is made.
#include <functional>
#include <string>

#include "agent/verify/verify_program.h"
#include "base/result.h"
#include "config/model.h"
#include "verify/report.h"

namespace tranche::agent {

// Where things are for this process.
struct VerifyPlaces {
  std::string mps_root;       // as the node names it
  std::string mps_root_here;  // and as we do
  std::string driver_root;    // of the driver's files
};

using Tell = std::function<void(const verify::Check&)>;

// An Error: there is nothing to look at, such as no API server.
Status look_at_cluster(const VerifyOptions& options, const Tell& tell);
Status look_here(const VerifyOptions& options, const config::Config& config, const VerifyPlaces& places,
                 const Tell& tell);
Status try_limits(const VerifyOptions& options, const VerifyPlaces& places, const Tell& tell);

}  // namespace tranche::agent
