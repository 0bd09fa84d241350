// What a build without gRPC does not have.
#include <nlohmann/json.hpp>
#include <set>

#include <podresources/v1/api.pb.h>
#include "base/text.h"
#include "config/parse/parse.h"
#include "fuzz/target.h"
#include "kubelet/translate.h"
#include "node/reports.h"
#include "standins/kubelet/pods.h"

using namespace tranche;

// Any bytes where a status document carries foreign text (a configuration's problems, the driver, kubelet, the API
// server): the document is made, and can be read again.
FUZZ(status_document) {
  const std::string all(text);
  node::Snapshot snapshot;
  snapshot.config.path = all;
  snapshot.config.label = all;
  snapshot.config.problems = tranche::config::parse(all, "fuzz").problems;
  snapshot.driver_problem = all;
  snapshot.cluster.reason = tranche::in_quotes(all);
  snapshot.holdings_problem = all;
  snapshot.pools.problem = all;
  snapshot.plan.left_out.push_back({all, all});
  tranche::grants::Held holding;
  holding.pod = all;
  holding.resource = all;
  holding.slots = {all};
  snapshot.holdings = {holding};
  for (const auto& document : {node::status_document(snapshot, {}), node::network_document(snapshot, {}, {})})
    if (nlohmann::json::parse(document.str(), nullptr, /*allow_exceptions=*/false).is_discarded()) std::abort();
}

// Pod files as people write them. Beyond "no crash": every pod that is accepted can be run and named.
FUZZ(sim_pods_yaml) {
  const auto file = tranche::sim::parse_pods(text, "fuzz.yaml");
  for (const auto& pod : file.pods) {
    if (pod.name.empty() || pod.pod_namespace.empty() || pod.containers.empty()) std::abort();
    for (const auto& container : pod.containers) {
      if (container.name.empty() || container.command.empty()) std::abort();
    }
  }
  for (const auto& problem : file.problems) {
    if (problem.what.empty() || problem.remedy.empty()) std::abort();
  }
}

// PodResources' answer as bytes: whatever parses gives one holding per resource of a container, with all of its slots.
FUZZ(pod_resources) {
  v1::ListPodResourcesResponse response;
  if (text.size() > (1 << 20) || !response.ParseFromArray(text.data(), static_cast<int>(text.size()))) return;
  const auto holdings = tranche::kubelet::to_holdings(response);
  std::size_t expected = 0;
  std::size_t ids = 0;
  for (const auto& pod : response.pod_resources()) {
    for (const auto& container : pod.containers()) {
      std::set<std::string> resources;
      for (const auto& devices : container.devices()) {
        resources.insert(devices.resource_name());
        ids += static_cast<std::size_t>(devices.device_ids_size());
      }
      expected += resources.size();
    }
  }
  std::size_t slots = 0;
  for (const auto& holding : holdings) slots += holding.slots.size();
  if (holdings.size() != expected || slots != ids) std::abort();
}
