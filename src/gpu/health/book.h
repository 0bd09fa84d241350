#pragma once
// What happened to the devices → which of them should take no new work, why, and when they may again: a fault ends on
// evidence. The book is in memory: a restart of ours forgets XIDs (whether the GPU was reset meanwhile is not known).
//
//   drain   the quiet period has passed without another fault, the GPU answers, and the driver asks for nothing
//   reset   the GPU was away and is back, or the driver asked for something and does not any more
//   lost    it is back
//
// Flaps are damped: each further fault doubles the quiet period, up to 12 times it; a calm as long as that forgets one
// doubling. Many events within a thirtieth of the quiet period are one fault. A device that was faulty before has to
// stay quiet after a reset too.
//
// Not here: which XIDs count (healthchecks.h), which device an event means (scope.h). Pure: `now` is passed in and
// never goes back. One thread.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "gpu/health/cause.h"
#include "gpu/health/scope.h"
#include "gpu/health/xids.h"

namespace tranche::health {

struct Settings {
  Duration quiet_period = std::chrono::minutes(5);  // above 0
  Duration longest() const { return quiet_period * 12; }
  Duration burst() const { return quiet_period / 30; }
  Duration look_again() const { return quiet_period / 10; }  // when a GPU gave no answer
};

// NVML's field 230: what the driver wants to be done with the GPU.
enum class Demand : std::uint32_t { kNone = 0, kReset = 1, kReboot = 2, kDrainPeers = 3, kDrainAndReset = 4 };

class Book {
 public:
  explicit Book(Settings settings = {}) : settings_(settings) {}

  // Only kDrain and kReset have an effect. guessed: the driver would not say which GPU.
  void fault(const Target& device, std::uint64_t xid, XidClass cls, bool guessed, MonoTime now);
  void lost(const std::string& gpu, MonoTime now);
  void back(const std::string& gpu, MonoTime now);
  // The GPU answered a look. demand: what its field 230 says, absent where the driver has no such field.
  void answered(const std::string& gpu, std::optional<std::uint32_t> demand, MonoTime now);
  void unwatched(const std::string& gpu, std::string why);
  void watched(const std::string& gpu);
  void keep_only(const inventory::Inventory& inventory);  // forgets devices that are no more

  // True when answered() is wanted now; then again only after a while.
  bool wants_look(MonoTime now);
  // When wants_look() will be true; nothing else changes by time alone.
  std::optional<MonoTime> next_change() const;

  std::map<std::string, Unhealthy> faults() const;  // by UUID; a GPU's entry is about its MIG devices too

 private:
  struct Record {
    Target device;
    bool open = false;
    bool lost = false;
    bool guessed = false;
    bool demanded = false;             // the driver has asked for something since it opened
    XidClass cls = XidClass::kIgnore;  // the worst so far; kIgnore: only the quiet period is left
    std::uint64_t xid = 0;             // 0: none
    int level = 0;                     // doublings
    MonoTime strike;                   // when the level was last looked at
    MonoTime touched;                  // the last fault, or its end
    MonoTime quiet_from;
    Duration quiet{};
    MonoTime look_at;
  };
  Record& open(const Target& device, MonoTime now);
  void raise_level(Record& record, MonoTime now) const;
  void mend(Record& record, MonoTime now) const;
  void stay_quiet(Record& record, int level, MonoTime now) const;
  Duration quiet_of(int level) const;
  Unhealthy describe(const Record& record) const;

  Settings settings_;
  std::map<std::string, Record> records_;         // by device; closed ones remember how often
  std::map<std::string, std::uint32_t> demands_;  // by GPU; only what keeps it from taking work
  std::map<std::string, std::string> unwatched_;  // by GPU
};

}  // namespace tranche::health
