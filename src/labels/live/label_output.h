#pragma once
// Where node labels are written (docs/reference/labels.md describes the purpose of each output), and the state of that
// for status.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "labels/outputs.h"

namespace tranche::labels {

enum class LabelOutput { kNone, kStdout, kFile, kNodeFeature, kNode };
ENUM_NAMES(LabelOutput::kNode, "none", "stdout", "file", "nodefeature", "node")
bool of_cluster(LabelOutput output);  // written through the API server

struct LabelReport {
  LabelOutput output = LabelOutput::kNone;
  std::string state = "off";  // "off", "waiting" (for GPUs, or for the API server), "settling", "written", "failing"
  std::string reason;         // why it is waiting or failing
  std::uint64_t writes = 0;   // that changed something
  std::vector<std::string> foreign;
  friend bool operator==(const LabelReport&, const LabelReport&) = default;
};

}  // namespace tranche::labels
