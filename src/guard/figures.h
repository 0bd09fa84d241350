#pragma once
// What each tenant uses of each device, from the samples that the guard judges: memory, its peak, clients, the time
// over the limit, and the processes that the guard ended. An unknown figure is absent, never 0. Only present tenants
// have figures. Pure values; SharedFigures passes them to a reader on another thread.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "guard/judge.h"
#include "guard/tenant_shares.h"

namespace tranche::guard {

struct Figure {
  std::optional<Bytes> used;             // absent: not reported by the driver, or not all processes are attributed
  std::optional<Bytes> peak;             // the largest `used` since the grant was given or the agent started
  std::optional<std::uint32_t> clients;  // MPS clients; absent like `used`
  Duration over{};                       // time above the limit in past crossings
  std::optional<MonoTime> over_since{};  // start of the present crossing
  std::map<std::string, std::uint64_t> stops;  // processes that the guard ended, by reason (kStopReasons)
  friend bool operator==(const Figure&, const Figure&) = default;
};

// memory-limit: the tenant was over its limit; outside-mps: the process used the GPU beside MPS.
inline constexpr const char* kStopForMemory = "memory-limit";
inline constexpr const char* kStopOutsideMps = "outside-mps";

using Figures = std::map<GrantOnDevice, Figure>;  // by the first grant of the tenant

// `devices` are the judge's input. Tenants that are gone are removed from `figures`.
void take_figures(Figures& figures, const std::vector<Device>& devices, const Tenants& tenants,
                  const std::map<GrantOnDevice, Limit>& limits, MonoTime now);
// The driver does not answer, so present use is unknown.
void forget_use(Figures& figures);
Duration time_over(const Figure& figure, MonoTime now);

// Any thread. A reader has the figures of one moment for as long as it likes; the next change then makes a copy of
// them.
class SharedFigures {
 public:
  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    if (newest_->readers.load(std::memory_order_acquire) > 0) newest_ = std::make_shared<Version>(newest_->figures);
    change(newest_->figures);
  }
  std::shared_ptr<const Figures> get() const {
    const std::lock_guard lock(mutex_);
    newest_->readers.fetch_add(1, std::memory_order_relaxed);
    return {&newest_->figures,
            [version = newest_](const Figures*) { version->readers.fetch_sub(1, std::memory_order_release); }};
  }

 private:
  struct Version {
    Figures figures;
    std::atomic<int> readers = 0;
  };
  mutable std::mutex mutex_;
  std::shared_ptr<Version> newest_ = std::make_shared<Version>();
};

}  // namespace tranche::guard
