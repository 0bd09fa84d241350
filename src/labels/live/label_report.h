#pragma once
// The state of writing node labels (label_controller.h), for status.
#include <cstdint>
#include <string>
#include <vector>

#include "labels/live/label_output.h"

namespace tranche::agent {

struct LabelReport {
  LabelOutput output = LabelOutput::kNone;
  std::string state = "off";  // "off", "waiting" (for GPUs, or for the API server), "settling", "written", "failing"
  std::string reason;         // why it is waiting or failing
  std::uint64_t writes = 0;   // that changed something
  std::vector<std::string> foreign;
  friend bool operator==(const LabelReport&, const LabelReport&) = default;
};

}  // namespace tranche::agent
