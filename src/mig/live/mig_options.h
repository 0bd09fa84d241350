#pragma once
// The settings of the MIG manager, and its state for the status document, the node's condition and metrics. Values.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace tranche::mig {

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

struct MigGpuReport {
  unsigned index = 0;
  std::string uuid;
  std::string now;                            // "3g.20gb at 0, 3g.20gb at 4"
  std::string target;                         // "" = as wanted, or not matched
  std::vector<std::string> waits_for;         // holders
  std::map<std::string, unsigned> instances;  // by profile
  friend bool operator==(const MigGpuReport&, const MigGpuReport&) = default;
};

inline constexpr std::array kMigStates{"off", "starting", "idle", "pending", "success", "failed"};

struct MigReport {
  std::string state = "off";  // of kMigStates
  std::string reason;         // one word, of the condition: "AsLabelled", "Waiting", "Applying", "NeedsReset", "Failed"
  std::string message;        // a sentence
  std::string config;         // the name that is followed
  std::string source;         // where its definition is
  std::string written;        // the state label as it was written last
  std::uint64_t changes = 0;  // of GPUs that were partitioned
  std::uint64_t failures = 0;
  std::uint64_t evictions = 0;
  std::optional<Duration> last_change;  // of the last success that changed something, from the request on
  std::vector<MigGpuReport> gpus;
  friend bool operator==(const MigReport&, const MigReport&) = default;
};

}  // namespace tranche::mig
