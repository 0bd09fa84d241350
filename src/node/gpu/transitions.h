#pragma once
// The condition of every planned device over time: its value, since when, and what changed (for the log and for
// counters). Pure: `now` is passed in. One thread.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "gpu/health/cause.h"

namespace tranche::node {

// Absent: healthy.
using Conditions = std::map<std::string, std::optional<gpu::Unhealthy>>;  // by UUID of the planned device

struct Condition {
  gpu::Unhealthy what;
  MonoTime since;  // when it became unhealthy, whatever the cause was at that time
  friend bool operator==(const Condition&, const Condition&) = default;
};

struct ConditionChange {
  enum class What { kFell, kOtherCause, kRecovered };
  What what = What::kFell;
  std::string device;
  gpu::Unhealthy condition;  // the new one; for kRecovered the previous one
  Duration lasted{};         // how long the device has been unhealthy
};

class Transitions {
 public:
  // A device that is no longer planned is forgotten, which is not reported as a recovery.
  std::vector<ConditionChange> update(const Conditions& conditions, MonoTime now);

  const std::map<std::string, Condition>& unhealthy() const { return unhealthy_; }
  // How often devices became unhealthy, by the cause at that moment.
  const std::map<gpu::Cause, std::uint64_t>& falls() const { return falls_; }

 private:
  std::map<std::string, Condition> unhealthy_;
  std::map<gpu::Cause, std::uint64_t> falls_;
};

}  // namespace tranche::node
