#pragma once
// Where node labels are written. docs/reference/labels.md describes the purpose of each output.
#include <string_view>

namespace tranche::agent {

enum class LabelOutput { kNone, kStdout, kFile, kNodeFeature, kNode };
std::string_view to_string(LabelOutput output);  // "none", "stdout", "file", "nodefeature", "node"

}  // namespace tranche::agent
