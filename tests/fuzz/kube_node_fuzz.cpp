// Any text as the Node that an API server answers with: a patch without the taint is JSON and names the version read.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kube/node_condition.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto patch = tranche::kube::patch_without_taint(text, "tranche.io/starting");
  if (!patch || !*patch) return 0;
  const auto json = nlohmann::json::parse(**patch, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json["metadata"]["resourceVersion"].is_string() || !json["spec"]["taints"].is_array())
    std::abort();
  return 0;
}
