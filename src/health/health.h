#pragma once
// What happened to the GPUs → which of them should take no new work, why, and when they may again. Health goes both
// ways: a fault ends on evidence (the device answers again, or a quiet period without a further event), not with a
// restart of ours. Pure: `now` is passed in.
//
// Classes of XID follow NVIDIA's catalogue: those an application causes by itself never make a GPU unhealthy.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "advertise/advertise.h"
#include "base/time.h"

namespace tranche::health {

enum class XidClass {
  kIgnore,  // caused by an application, or informational
  kDrain,   // the GPU should take no new work until it has been quiet
  kReset,   // the GPU needs a reset: no recovery by waiting
};
XidClass classify_xid(std::uint64_t xid);
std::string_view to_string(XidClass cls);  // "ignore", "drain", "reset"

struct Settings {
  Duration quiet_period = std::chrono::minutes(5);
};

class Book {
 public:
  explicit Book(Settings settings = {}) : settings_(settings) {}

  // gpu = "" means that the driver would not say which: all of `known`.
  void xid(const std::string& gpu, std::uint64_t xid, MonoTime now);
  void lost(const std::string& gpu, MonoTime now);
  void back(const std::string& gpu, MonoTime now);  // answers again: ends a loss, and faults that a reset ends

  // Forgets faults whose quiet period has passed.
  void advance(MonoTime now);
  std::optional<MonoTime> next_change() const;  // when advance() would forget something

  // By GPU UUID; the reason says what to do.
  const std::map<std::string, std::string>& faults() const { return reasons_; }
  // The XIDs seen per GPU, ignored ones included: for metrics.
  const std::map<std::pair<std::string, std::uint64_t>, std::uint64_t>& xid_counts() const { return counts_; }

 private:
  struct Fault {
    bool lost = false;
    std::uint64_t xid = 0;
    XidClass cls = XidClass::kIgnore;
    MonoTime since;
  };
  void tell();

  Settings settings_;
  std::map<std::string, Fault> open_;
  std::map<std::string, std::string> reasons_;
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> counts_;
};

// The key in Book for events whose GPU the driver would not name; it covers every device.
inline constexpr const char* kAnyGpu = "*";

}  // namespace tranche::health
