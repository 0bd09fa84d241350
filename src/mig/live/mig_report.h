#pragma once
// The MIG manager's state, for the status document, the node's condition and metrics. Values.
#include <string>
#include <vector>

namespace tranche::agent {

struct MigGpuReport {
  unsigned index = 0;
  std::string uuid;
  std::string now;                     // "3g.20gb at 0, 3g.20gb at 4"
  std::string target;                  // "" = as wanted, or not matched
  std::vector<std::string> waits_for;  // holders
  std::string unfinished;              // a step of an earlier process whose end is not known
  friend bool operator==(const MigGpuReport&, const MigGpuReport&) = default;
};

struct MigReport {
  std::string state = "off";  // "off", "starting", "pending", "success", "failed", "idle"
  std::string reason;         // one word, of the condition: "AsLabelled", "Waiting", "Applying", "NeedsReset", "Failed"
  std::string message;        // a sentence
  std::string config;         // the name that is followed
  std::string source;         // where its definition is
  std::string written;        // the state label as it was written last
  std::uint64_t changes = 0;  // of GPUs that were partitioned anew
  std::uint64_t failures = 0;
  std::uint64_t evictions = 0;
  std::vector<MigGpuReport> gpus;
  friend bool operator==(const MigReport&, const MigReport&) = default;
};

}  // namespace tranche::agent
