// Any body of a list: what is accepted has a version and whole names, and twice the same list changes nothing.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kube/api_status.h"
#include "kube/pod_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  using namespace tranche::kube;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  if (status_of_body(500, body).code != 500) std::abort();
  const auto page = parse_pod_list(body);
  if (!page) return 0;
  if (page->head.resource_version.empty()) std::abort();
  for (const auto& pod : page->pods)
    if (pod.name.empty() || pod.pod_namespace.empty() || pod.uid.empty()) std::abort();
  PodTable table;
  table.replace(page->pods);
  if (table.size() > page->pods.size()) std::abort();
  if (table.size() == page->pods.size() && !table.replace(page->pods).empty()) std::abort();
  return 0;
}
