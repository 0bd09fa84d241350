#pragma once
// What a control daemon is told to enforce, and whether what it says afterwards is the same. Memory is limited for each
// device by UUID; the thread percentage is one for the daemon, so a pool of unlike devices gets its largest (clients
// lower it for themselves). In tier v3 there is a namespace for each grant beside them (mps/control/v3.h). Pure.
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "mps/control/v3.h"
#include "plan/plan.h"

namespace tranche::mps {

struct DaemonLimits {
  std::vector<std::pair<std::string, Bytes>> memory;  // device UUID, whole MiB; a device without a limit is absent
  Percent threads = Percent::whole(100);
  std::vector<v3::WantedNamespace> namespaces = {};  // tier v3
  friend bool operator==(const DaemonLimits&, const DaemonLimits&) = default;
};
DaemonLimits limits_of(const plan::PlannedPool& pool);
// As the daemon's getter says it: whole G rounded down, M below 1 G.
std::string as_printed(Bytes limit);
std::string to_string(const DaemonLimits& limits);  // "GPU-…=7188M 5.5 %": for logs

// The daemon's own words, after it was told.
struct LimitsReadBack {
  std::vector<std::pair<std::string, std::string>> memory;  // device UUID, "14G"
  std::string threads;                                      // "10.0"
  std::vector<v3::Namespace> namespaces = {};               // tier v3: every row of "namespace list"
  friend bool operator==(const LimitsReadBack&, const LimitsReadBack&) = default;
};

// "" when the daemon holds what it was told, else a sentence that names the first difference. The getter prints memory
// in whole G, rounded down, or in M below 1 G, and percentages with one decimal: 14377 MiB and "14G", 500 MiB and
// "500M", 10 and "10.0" agree.
std::string disagreement(const DaemonLimits& told, const LimitsReadBack& read);
// The same of a server's own limits.
std::string server_disagreement(const DaemonLimits& told, const LimitsReadBack& read);
std::string threads_disagreement(const DaemonLimits& told, Percent in_force);

}  // namespace tranche::mps
