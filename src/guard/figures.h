#pragma once
// What each tenant uses of each device, from the samples that the guard judges: memory, its peak, clients, the time
// over the limit, and the processes that the guard ended. An unknown figure is absent, never 0. Only present tenants
// have figures. Pure values; SharedFigures passes them to a reader on another thread.
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "guard/judge.h"
#include "guard/tenants.h"

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

class SharedFigures {
 public:
  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change(figures_);
  }
  Figures copy() const {
    const std::lock_guard lock(mutex_);
    return figures_;
  }

 private:
  mutable std::mutex mutex_;
  Figures figures_;
};

}  // namespace tranche::guard
