#pragma once
// Processes that `tranche mps` did not let in because their environment lifts their memory limit, as events about pods:
// one for each container and value. Who holds a grant that was just given is known only later, when
// kubelet says so; until then the event waits. Pure.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mps/protocol/pool_reports.h"

namespace tranche::agent {

struct LiftedLimit {
  std::string holder;  // "namespace/pod/container"
  std::string grant;
  std::string why;  // one sentence with what to write instead
  friend bool operator==(const LiftedLimit&, const LiftedLimit&) = default;
};

class LiftedLimits {
 public:
  // A grant was handed out: the former holder of the same slots has them no longer.
  void given(const std::string& grant);
  void holders(const std::map<std::string, std::string>& holder_of_grant);
  void pools(const PoolReports& reports);
  std::vector<LiftedLimit> unreported();  // what was not reported before

 private:
  std::map<std::string, std::uint64_t> seen_;   // refusals, by grant
  std::map<std::string, std::string> waiting_;  // why, by grant
  std::map<std::string, std::string> holder_of_;
  std::set<std::pair<std::string, std::string>> reported_;  // holder, why
  bool first_ = true;  // refusals in the first report are from before this start, and were reported then
};

}  // namespace tranche::agent
