#pragma once
// Snapshot → reports for people and programs: the status document (docs/reference/status.md) and the metrics page.
// Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "guard/figures.h"
#include "observe/metrics/page.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

// Prefix of the name of a claim that replaces a pod's: a pod's name cannot have a colon.
inline constexpr std::string_view kClaimAsPod = "claim:";

// The holders of devices, as reported by kubelet (PodResources, and the claims that it had prepared) and the plan.
struct Holder {
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string resource;
  std::vector<std::string> slots;
  std::vector<allocate::GrantLimit> devices;
  std::string grant;        // its endpoint's name, "" without MPS
  bool taken = false;       // a forced change took its share of one or several devices
  std::string claim = {};   // of the holding; "": held by slots
  bool of_several = false;  // a claim that any pod may use: `pod` is kClaimAsPod and its name
  std::string claim_uid = {};
};
std::vector<Holder> holders(const Snapshot& snapshot);
// Holders with the same key are one tenant: the grants of a container. A request of a claim is a tenant of its own,
// whatever the names of the claim, its request and its pod, because users choose these names.
std::string tenant_key(const Holder& holder);
// Slots that were allocated again no longer belong to the holder that kubelet reported before; it reports the new one a
// little later.
void forget_former_holders(std::vector<host::PodHolding>& holdings, const allocate::Grant& given);

nlohmann::ordered_json guard_json(const GuardReport& report);
void put_guard(metrics::Page& page, const GuardReport& report);
nlohmann::ordered_json status_document(const Snapshot& snapshot);
// The part for any client of the network: without process ids and names, pod UIDs, container ids and files of the node.
// Includes the memory that each grant uses, if the guard knows it.
nlohmann::ordered_json network_document(const Snapshot& snapshot, const guard::Figures& figures);
metrics::Page metrics_page(const Snapshot& snapshot);

}  // namespace tranche::agent
