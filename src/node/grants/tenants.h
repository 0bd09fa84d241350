#pragma once
// What follows for tenants from who holds what: the limits of their endpoints, and notices for their pods.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_list.h"
#include "base/time.h"
#include "guard/tenant_shares.h"
#include "kube/event_queue.h"
#include "kube/pod.h"
#include "mps/protocol/mps_client.h"
#include "mps/protocol/pool_reports.h"
#include "node/grants/holders.h"
#include "os/loop/loop.h"

namespace tranche::node {

// Keeps the limits of each endpoint equal to the limits of its tenant (guard/tenant_shares.h): a container that holds
// several grants of a pool connects through one of their endpoints and uses the devices of all. `tranche mps` opens an
// endpoint with the limits of its own grant (endpoints.h). kubelet names the container only after that, and then each
// of its endpoints gets the limits of all its grants. Until then a device of a different grant has too little memory
// for a context: a late request delays a client's start, and no client gets more than its limits. Loop thread only.
class EndpointLimitSender {
 public:
  EndpointLimitSender(os::Loop& loop, mps::MpsClient& mps) : loop_(loop), mps_(mps) {}

  // After every change of either; cheap when all endpoints are as they should be.
  void follow(const guard::Tenants& tenants, const mps::PoolReports& pools);

 private:
  struct Requested {
    mps::GrantLimits limits;
    bool waiting = false;  // for the answer
    bool failed = false;
    MonoTime not_before{};
  };
  void request(const mps::EndpointName& endpoint, const mps::GrantLimits& limits);

  os::Loop& loop_;
  mps::MpsClient& mps_;
  std::map<mps::EndpointName, Requested> requested_;  // endpoints that were not as they should be
};

struct PodNotice {
  const kube::Reason* reason = nullptr;
  std::string_view event;  // in the log
  Holder holder;
  std::string uid;  // of the pod; "": not known here
  std::string message;
};

// Notices for the pods of tenants, each once: limits that a pod sets for itself and that have no effect, processes that
// MPS refused because their environment lifts a limit, and containers that hold slots of several MPS pools. kubelet
// names the container of a grant only after the grant was given; until then its notices wait. Pure.
class PodNotices {
 public:
  // A grant was given: what MPS refused before was of the former holder of the same slots.
  void given(const std::string& grant) { refused_.erase(grant); }
  void pools(const mps::PoolReports& reports);
  // Those that are new. Cheap while the holders are the same.
  std::vector<PodNotice> look(const SharedList<Holder>& holders, const kube::PodTable& pods);

 private:
  void add(PodNotice notice);
  void add_remarks(const std::vector<Holder>& holders, const kube::PodTable& pods);
  void add_refused(const std::vector<Holder>& holders);
  void add_split(const std::vector<Holder>& holders);

  SharedList<Holder> looked_;                   // with the UIDs of their pods
  std::map<std::string, std::uint64_t> seen_;   // refusals, by grant
  std::map<std::string, std::string> refused_;  // why, by grant: waits for the holder
  bool first_ = true;  // the first report's refusals happened before this start, and were reported then
  std::map<std::string, std::set<std::string>> reported_;  // uids and messages, by "namespace/pod/container"
  std::vector<PodNotice> ready_;
};

}  // namespace tranche::node
