#pragma once
// What a different configuration would change: two plans of the same node, and where the same pods land on each.
// Whatever the plan's document (plan/plan.h) shows differently is a difference, also fields that this file has no
// word for. Pure.
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "simulate/land.h"

namespace tranche::simulate {

// One thing that is not as before. `before` or `after` is empty when it is not there at all.
struct Difference {
  std::string what;                  // "nvidia.com/gpu", "pool gpu-3f2a1b4c", "label nvidia.com/gpu.replicas", "note"
  std::vector<std::string> devices;  // by index, when it is of devices of a resource
  std::string field;                 // "slots", "memory of a slot (MiB)"; "" when it came or went as a whole
  std::string before;
  std::string after;
  friend bool operator==(const Difference&, const Difference&) = default;
};

struct Side {
  const plan::Plan& plan;
  const std::map<std::string, std::string>& labels;
};

std::vector<Difference> compare(const Side& before, const Side& after);

// Pods that land elsewhere, get more or less, or no longer (or only now) land; `what` is "pod default/a".
std::vector<Difference> compare(const Simulation& before, const Simulation& after);

// As text for a terminal, and as JSON (docs/reference/plan.md); `before` and `after` name the configurations.
std::string render_table(const std::vector<Difference>& differences, const std::string& before,
                         const std::string& after, const plan::TableOptions& options);
void to_json(nlohmann::ordered_json& json, const Difference& difference);

// "GPU 0: 10 slots, 71885 MiB, 66 SMs", "waits": of one pod, in one line.
std::string summary(const PodOutcome& outcome);

}  // namespace tranche::simulate
