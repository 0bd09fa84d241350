#pragma once
// Where node labels are written (docs/reference/labels.md describes the purpose of each output), and the state of that
// for status.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"

namespace tranche::labels {

enum class LabelOutput { kNone, kStdout, kFile, kNodeFeature, kNode };
ENUM_NAMES(LabelOutput::kNode, "none", "stdout", "file", "nodefeature", "node")
bool of_cluster(LabelOutput output);  // written through the API server

// Where the labels of one node go.
struct LabelTarget {
  std::string node_name;
  std::string feature_namespace = "default";  // of the NodeFeature object
  std::string pod_name;  // whose DaemonSet owns the NodeFeature object, which is deleted with it; "" = no owner
  std::string file;      // replaced atomically, through a hidden file beside it; its folder must exist
};

struct LabelReport {
  LabelOutput output = LabelOutput::kNone;
  std::string state = "off";  // "off", "waiting" (for GPUs, or for the API server), "settling", "written", "failing"
  std::string reason;         // why it is waiting or failing
  std::uint64_t writes = 0;   // that changed something
  std::vector<std::string> foreign;
  friend bool operator==(const LabelReport&, const LabelReport&) = default;
};

}  // namespace tranche::labels
