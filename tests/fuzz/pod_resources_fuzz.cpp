// PodResources' answer as bytes: whatever parses gives one holding per resource of a container, with all of its slots.
#include <podresources/v1/api.pb.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "host/kubelet/translate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  v1::ListPodResourcesResponse response;
  if (size > (1 << 20) || !response.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto holdings = tranche::host::to_holdings(response);
  std::size_t expected = 0;
  for (const auto& pod : response.pod_resources()) {
    for (const auto& container : pod.containers()) expected += static_cast<std::size_t>(container.devices_size());
  }
  std::size_t slots = 0;
  for (const auto& holding : holdings) slots += holding.slots.size();
  if (holdings.size() != expected || slots > size) std::abort();
  return 0;
}
