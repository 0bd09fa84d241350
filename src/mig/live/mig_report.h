#pragma once
// The MIG manager's state, for the status document, the node's condition and metrics. Values.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace tranche::agent {

struct MigGpuReport {
  unsigned index = 0;
  std::string uuid;
  std::string now;                            // "3g.20gb at 0, 3g.20gb at 4"
  std::string target;                         // "" = as wanted, or not matched
  std::vector<std::string> waits_for;         // holders
  std::map<std::string, unsigned> instances;  // by profile
  std::string unfinished;                     // a step of an earlier process whose end is not known
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

}  // namespace tranche::agent
