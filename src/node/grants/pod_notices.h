#pragma once
// Notices for the pods of tenants, each once: limits that a pod sets for itself and that have no effect, processes that
// MPS refused because their environment lifts a limit, and containers that hold slots of several MPS pools. kubelet
// names the container of a grant only after the grant was given; until then its notices wait. Pure.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/pod_table.h"
#include "kube/reasons.h"
#include "mps/protocol/pool_reports.h"
#include "node/grants/holders.h"

namespace tranche::node {

struct PodNotice {
  const kube::Reason* reason = nullptr;
  std::string_view event;  // in the log
  std::string pod_namespace;
  std::string pod;  // or kClaimAsPod and a claim
  std::string container;
  std::string uid;  // "": not known here
  std::string grant;
  std::string message;
};

class PodNotices {
 public:
  // A grant was given: the former holder of the same slots no longer has them.
  void given(const std::string& grant);
  // kubelet's answer. `pool_of`: by grant, the pool of its endpoint.
  void held(const std::vector<Holder>& holders, const std::map<std::string, std::string>& pool_of);
  void pods(const kube::PodChanges& changes);
  void pools(const mps::PoolReports& reports);
  std::vector<PodNotice> take() { return std::exchange(ready_, {}); }  // what was not taken before

 private:
  struct Pod {
    std::string uid;
    std::vector<kube::MpsEnvironmentSeen> environments;
  };
  void add(PodNotice notice);
  void add_remarks();
  void add_refused();
  void add_split(const std::map<std::string, std::string>& pool_of);

  std::vector<Holder> holders_;
  std::map<std::string, const Holder*> holder_of_;           // by grant; those that still have it
  std::map<std::pair<std::string, std::string>, Pod> pods_;  // by namespace and name: those that set a limit
  std::map<std::string, std::uint64_t> seen_;                // refusals, by grant
  std::map<std::string, std::string> refused_;               // why, by grant: waits for the holder
  bool first_ = true;  // the first report's refusals happened before this start, and were reported then
  std::map<std::string, std::set<std::string>> reported_;  // uids and messages, by "namespace/pod/container"
  std::vector<PodNotice> ready_;
};

}  // namespace tranche::node
