#pragma once
// What each tenant uses of each device, from the samples that the guard judges: memory, its peak, clients, the time
// over the limit, and the processes that the guard ended. An unknown figure is absent, never 0. Only present tenants
// have figures. Pure values.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guard/judge.h"
#include "guard/tenant_shares.h"
#include "os/worker/worker.h"

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

// Any thread reads them; the agent's loop alone changes them.
using SharedFigures = os::SharedBox<Figures>;
template <class Change>
void change(SharedFigures& shared, Change change) {
  const auto next = std::make_shared<Figures>(*shared.get());
  change(*next);
  shared.put(next);
}

}  // namespace tranche::guard
