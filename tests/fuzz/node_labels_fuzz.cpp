// Any bytes as a Node: the change is one JSON document that touches our labels only, and after it nothing is left to
// do. The same bytes as a pod and as a NodeFeature object.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "labels/node_labels.h"
#include "labels/outputs.h"

namespace {

using tranche::label::Labels;

void check_node(std::string_view text, const Labels& wanted) {
  const auto change = tranche::label::change_node(text, wanted);
  if (!change || !change->patch) return;
  const auto patch = nlohmann::json::parse(*change->patch, nullptr, false);
  if (!patch.is_object() || !patch.contains("metadata")) std::abort();
  const auto metadata = patch["metadata"];
  if (metadata.contains("labels"))
    for (const auto& [key, value] : metadata["labels"].items())
      if (!tranche::label::may_own(key)) std::abort();
  auto node = nlohmann::json::parse(text, nullptr, false);
  node.merge_patch(patch);
  const auto again =
      tranche::label::change_node(node.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), wanted);
  if (!again || again->patch || again->foreign != change->foreign) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Labels wanted{{"nvidia.com/gpu.count", "2"}, {"tranche.io/gpu.slot.sms", "12"}, {"nvidia.com/mig.config", "x"}};
  check_node(text, wanted);
  check_node(text, {});
  tranche::label::FeaturePlace place{"n1", "default"};
  if (const auto owners = tranche::label::owners_of_pod(text)) place.owners = *owners;
  const auto changed = tranche::label::changed_feature(text, place, wanted);
  if (!changed || !*changed) return 0;
  const auto again = tranche::label::changed_feature(**changed, place, wanted);
  if (!again || again->has_value()) std::abort();
  return 0;
}
