#pragma once
// Snapshot → what people and machines read: the status document (docs/reference/status.md) and the metrics page. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "guard/figures.h"
#include "observe/metrics/page.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

// Before the name of a claim that stands for a pod: no pod's name has a colon.
inline constexpr std::string_view kClaimAsPod = "claim:";

// Who holds how much of which device, as reported by kubelet (PodResources, and the claims that it had prepared) and
// the plan.
struct Holder {
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string resource;
  std::vector<std::string> slots;
  std::vector<allocate::GrantLimit> devices;
  std::string grant;        // its endpoint's name, "" without MPS
  bool taken = false;       // what it held of a device, or of several, by a forced change
  std::string claim = {};   // by which it holds it; "": by slots
  bool of_several = false;  // a claim that any pod may use: `pod` is kClaimAsPod and its name
  std::string claim_uid = {};
};
std::vector<Holder> holders(const Snapshot& snapshot);
// Holders with one key are one tenant: the grants of a container. A request of a claim is a tenant of its own, whatever
// the claim, its request and its pod are named: users choose these names.
std::string tenant_key(const Holder& holder);
// Slots that were handed out again are no longer whose kubelet said before; it names the new holder a little later.
void forget_former_holders(std::vector<host::PodHolding>& holdings, const allocate::Grant& given);

nlohmann::ordered_json guard_json(const GuardReport& report);
void put_guard(metrics::Page& page, const GuardReport& report);
nlohmann::ordered_json status_document(const Snapshot& snapshot);
// Its part for any client of the network: no process ids and names, no pod UIDs and container ids, no files of the
// node. With the memory that each grant uses, where the guard knows it.
nlohmann::ordered_json network_document(const Snapshot& snapshot, const guard::Figures& figures);
metrics::Page metrics_page(const Snapshot& snapshot);

}  // namespace tranche::agent
