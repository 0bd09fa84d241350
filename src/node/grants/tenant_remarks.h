#pragma once
// The limits that pods set for themselves (mps/limits/tenant_limits.h), as the API server shows them, beside what their
// containers were granted: each remark once for a pod, as an event and in the log. No limit depends on them: a
// tenant can write any environment for its own processes, and it is not read. Pure.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kube/event_json.h"
#include "kube/pod_table.h"
#include "mps/limits/tenant_limits.h"
#include "node/grants/holders.h"

namespace tranche::agent {

struct UnreportedRemark {
  kube::ObjectRef pod;
  std::string container;
  mps::TenantRemark remark;
};

class TenantRemarks {
 public:
  void pods(const kube::PodChanges& changes);
  // The remarks that were not reported yet, of containers that hold a grant.
  std::vector<UnreportedRemark> look(const std::vector<Holder>& holders);

 private:
  struct Pod {
    std::string uid;
    std::vector<kube::MpsEnvironmentSeen> environments;
  };
  std::map<std::pair<std::string, std::string>, Pod> pods_;               // by namespace and name: those that set some
  std::set<std::tuple<std::string, std::string, std::string>> reported_;  // uid, container, message
};

}  // namespace tranche::agent
