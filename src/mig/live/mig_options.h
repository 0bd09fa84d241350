#pragma once
// Settings of the node agent's MIG manager. Values.
#include <string>

#include "base/time.h"

namespace tranche::agent {

inline constexpr const char* kMigConfigLabel = "nvidia.com/mig.config";
inline constexpr const char* kMigStateLabel = "nvidia.com/mig.config.state";
// The GPU Operator sets it to "true" where its own manager runs.
inline constexpr const char* kMigOperatorLabel = "nvidia.com/gpu.deploy.mig-manager";

struct MigOptions {
  bool enabled = false;
  std::string config_file;          // mig-parted's format; "" = none
  std::string config_map;           // "namespace/name", its key config.yaml; "" = none
  std::string default_name;         // for a node without the label; "" = such a node is left alone
  Duration evict_after{};           // for pods that hold what has to go; zero = they are never evicted
  bool in_operators_place = false;  // kMigOperatorLabel is what runs this program
  bool may_reset = true;            // reset a GPU that nothing uses where its mode needs that
};

}  // namespace tranche::agent
