#pragma once
// The limits that a control daemon has to enforce, and whether the limits that it reports are the same. Memory is
// limited for each device by UUID. The daemon has one thread percentage, so a pool of different devices gets its
// largest, and clients lower it for themselves. Pure.
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plan/plan.h"

namespace tranche::mps {

struct DaemonLimits {
  std::vector<std::pair<std::string, Bytes>> memory;  // device UUID, whole MiB; a device without a limit is absent
  Percent threads = Percent::whole(100);
  friend bool operator==(const DaemonLimits&, const DaemonLimits&) = default;
};
DaemonLimits limits_of(const plan::PlannedPool& pool);
// As the daemon's getter prints it: whole G rounded down, M below 1 G.
std::string as_printed(Bytes limit);
std::string to_string(const DaemonLimits& limits);  // "GPU-…=7188M 5.5 %": for logs

// What the daemon reports after the limits were set.
struct LimitsReadBack {
  std::vector<std::pair<std::string, std::string>> memory;  // device UUID, "14G"
  std::string threads;                                      // "10.0"
  friend bool operator==(const LimitsReadBack&, const LimitsReadBack&) = default;
};

// "" if the daemon, or one of its servers, holds what was set, else a sentence that names the first difference. The
// getter prints memory in whole G, rounded down, or in M below 1 G, and percentages with one decimal: 14377 MiB and
// "14G", 500 MiB and "500M", 10 and "10.0" agree.
std::string disagreement(const DaemonLimits& expected, const LimitsReadBack& read);
std::string threads_disagreement(const DaemonLimits& expected, Percent in_force);

}  // namespace tranche::mps
