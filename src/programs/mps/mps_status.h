#pragma once
// The report of `tranche mps` about itself, as the one-line JSON of its status socket (docs/internals/mps-contract.md,
// "Status socket") and as metrics. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/time.h"
#include "config/live/config_source.h"
#include "mps/pool/pool_set.h"
#include "observe/metrics/page.h"
#include "observe/pages/http_pages.h"

namespace tranche::agent {

struct MpsView {
  const ConfigView& config;
  const std::vector<Problem>& plan_problems;
  std::string driver_problem;  // "" = the driver answers
  const PoolSet& pools;
  const Endpoints& endpoints;
  MonoTime now{};
  int pid = 0;
  std::string pages_problem = {};  // why the HTTP pages are not served; "" = they are, or none are requested
  LoopReport loop = {};
};

nlohmann::ordered_json mps_document(const MpsView& view);
metrics::Page mps_metrics(const MpsView& view);

}  // namespace tranche::agent
