// PodResources' answer as bytes: whatever parses gives one holding per resource of a container, with all of its slots.
#include <podresources/v1/api.pb.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "kubelet/translate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  v1::ListPodResourcesResponse response;
  if (size > (1 << 20) || !response.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto holdings = tranche::host::to_holdings(response);
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
  return 0;
}
