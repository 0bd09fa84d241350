#pragma once
// The node agent's view of GPU health: converts driver events into faults (src/gpu/health decides), keeps the log and
// the counters, and determines what must be advertised as unhealthy and why. Loop thread only.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/problem.h"
#include "config/resolve.h"
#include "gpu/driver/nvml.h"
#include "gpu/health/fault_ledger.h"
#include "gpu/health/healthchecks.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

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

// The part that status and metrics show.
struct HealthReport {
  std::string off;  // why faults are not watched, "" if they are
  Duration quiet_period{};
  std::vector<Problem> problems;               // of the variables
  std::map<std::string, Condition> unhealthy;  // by UUID of the planned device
  std::map<gpu::Cause, std::uint64_t> falls;   // how often devices became unhealthy, by the cause at that moment
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t>
      xids;  // seen, by GPU and number, including harmless ones

  // Brings `unhealthy` and `falls` up to date; what changed, for the log and events. A device that is no longer planned
  // is forgotten, which is not reported as a recovery. Pure.
  std::vector<ConditionChange> update(const Conditions& conditions, MonoTime now);
};

class GpuHealth {
 public:
  GpuHealth(const config::Environment& environment, gpu::HealthSettings settings);

  void log_settings() const;
  bool off() const { return checks_.off(); }

  // True: the caller should query the GPUs (NvmlThread::ask_use).
  bool on_event(const gpu::GpuEvent& event, const gpu::Inventory& inventory, MonoTime now);
  // `inventory` includes the missing GPUs, which the newest scan did not find.
  void on_inventory(const gpu::Inventory& inventory, std::vector<std::string> missing, MonoTime now);
  void on_use(const std::vector<gpu::GpuUse>& use, MonoTime now);
  bool wants_look(MonoTime now) { return ledger_.wants_look(now); }
  std::optional<MonoTime> next_change() const { return ledger_.next_change(); }

  // The present faults. driver_problem: "" while the driver answers. `others` are
  // faults that no GPU reports, by device.
  plan::Faults judge(const plan::Plan& plan, const gpu::Inventory& inventory, const std::string& driver_problem,
                     std::map<std::string, gpu::Unhealthy> others, std::map<std::string, std::string> pools,
                     MonoTime now);
  const std::vector<ConditionChange>& changes() const { return changes_; }  // that the last judge() found
  const HealthReport& report() const { return report_; }

 private:
  void on_xid(const gpu::GpuEvent& event, const gpu::Inventory& inventory, MonoTime now);

  gpu::HealthChecks checks_;
  gpu::FaultLedger ledger_;
  std::vector<ConditionChange> changes_;
  std::vector<std::string> missing_;
  std::string silent_;  // why the driver does not answer at all
  HealthReport report_;
};

}  // namespace tranche::node
