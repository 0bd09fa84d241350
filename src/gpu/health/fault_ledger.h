#pragma once
// Which devices must not accept new work, why, and when they may again, from what happened to them. A fault ends only
// on evidence. The state is in memory: XIDs are lost at a restart of the agent, which cannot know whether the GPU was
// reset meanwhile.
//
// drain   the quiet period has passed without a further fault, the GPU answers, and the driver requests no action
// reset   the GPU was away and is back, or the driver requested an action and no longer does
// lost    the GPU is back
//
// Flapping is damped: each further fault doubles the quiet period, up to 12 times its length; a calm of that length
// undoes one doubling. Events within a thirtieth of the quiet period count as one fault. A device that was faulty
// before must also stay quiet after a reset.
//
// Not here: which XIDs count (healthchecks.h). Pure: `now` is passed in and never decreases. One thread.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "gpu/health/healthchecks.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu {

struct FaultTarget {
  std::string uuid;  // GPU or MIG device
  std::string gpu;   // the GPU it is, or is on
  friend bool operator==(const FaultTarget&, const FaultTarget&) = default;
};

// Which devices a driver event is about. A GPU represents itself and all MIG devices on it (advertise/ spreads a GPU's
// fault); an event that names instances is about those alone.
struct Scope {
  std::vector<FaultTarget> targets;  // in driver order
  bool guessed = false;              // the driver did not report which GPU, so all are targets
  std::string unattributed;          // why there are no targets, for the log
};

// uuid: of a GPU or a MIG device, by its present or its old name; "" = the driver did not report it. The instances are
// kNoInstance if the event names none. An event that names both is about that MIG device; one that names only the GPU
// instance is about all MIG devices in it.
Scope scope_of(const Inventory& inventory, std::string_view uuid, std::uint32_t gpu_instance,
               std::uint32_t compute_instance);

struct HealthSettings {
  Duration quiet_period = std::chrono::minutes(5);  // above 0
  Duration longest() const { return quiet_period * 12; }
  Duration burst() const { return quiet_period / 30; }
  Duration look_again() const { return quiet_period / 10; }  // when a GPU did not answer
};

class FaultLedger {
 public:
  explicit FaultLedger(HealthSettings settings = {}) : settings_(settings) {}

  // Only kDrain and kReset have an effect. guessed: the driver did not report which GPU.
  void fault(const FaultTarget& device, std::uint64_t xid, XidClass cls, bool guessed, MonoTime now);
  void lost(const std::string& gpu, MonoTime now);
  void back(const std::string& gpu, MonoTime now);
  // The GPU answered. demand: its field 230, absent if the driver does not have that field.
  void answered(const std::string& gpu, std::optional<std::uint32_t> demand, MonoTime now);
  void unwatched(const std::string& gpu, std::string why) { unwatched_[gpu] = std::move(why); }
  void watched(const std::string& gpu) { unwatched_.erase(gpu); }
  void keep_only(const Inventory& inventory);  // forgets devices that no longer exist

  // True when answered() is needed now; then false until the next interval.
  bool wants_look(MonoTime now);
  // When wants_look() will be true; nothing else changes by time alone.
  std::optional<MonoTime> next_change() const;

  std::map<std::string, Unhealthy> faults() const;  // by UUID; a GPU's entry also applies to its MIG devices

 private:
  struct Record {
    FaultTarget device;
    bool open = false;
    bool lost = false;
    bool guessed = false;
    bool demanded = false;             // the driver has requested an action since it was opened
    XidClass cls = XidClass::kIgnore;  // the worst so far; kIgnore: only the quiet period remains
    std::uint64_t xid = 0;             // 0: none
    int level = 0;                     // doublings
    MonoTime strike;                   // when the level was last evaluated
    MonoTime touched;                  // the last fault, or its end
    MonoTime quiet_from;
    Duration quiet{};
    MonoTime look_at;
  };
  Record& open(const FaultTarget& device, MonoTime now);
  void raise_level(Record& record, MonoTime now) const;
  void recover(Record& record, MonoTime now) const;
  void stay_quiet(Record& record, int level, MonoTime now) const;
  Duration quiet_of(int level) const;
  Unhealthy describe(const Record& record) const;

  HealthSettings settings_;
  std::map<std::string, Record> records_;         // by device; closed ones keep the count
  std::map<std::string, std::uint32_t> demands_;  // by GPU; only values that keep it from accepting work
  std::map<std::string, std::string> unwatched_;  // by GPU
};

}  // namespace tranche::gpu
