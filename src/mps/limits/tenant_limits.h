#pragma once
// The limits that a tenant writes for itself into its pod (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE,
// CUDA_MPS_PINNED_DEVICE_MEM_LIMIT), judged as the driver takes them: what it does not understand, and what is more
// than the grant and so has no effect. For people only: no limit rests on it, and what the driver makes of a value that
// we call wrong is held by the server and the guard. Not for the values that we write (client_limits.h). Pure; fuzzed.
//
// Two judges on purpose. remarks_on() names whatever is not known to work. lifting() has a client refused, so it names
// only what is known to lift: what it does not know is let in, and held by the guard.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "mps/limits/client_limits.h"

namespace tranche::mps {

struct TenantWords {
  std::optional<std::string> threads;  // absent: the pod does not set it
  std::optional<std::string> memory;
  friend bool operator==(const TenantWords&, const TenantWords&) = default;
};

// What the container was given; 0 = not limited.
struct TenantWorth {
  Percent threads;
  std::vector<DeviceMemory> memory;  // of every device that it sees
};

struct TenantRemark {
  bool understood = false;  // it is, but has no effect
  std::string message;      // one sentence: what is written, what comes of it, what to write instead
  friend bool operator==(const TenantRemark&, const TenantRemark&) = default;
};

// One for each variable at most; none for what is in order.
std::vector<TenantRemark> remarks_on(const TenantWords& words, const TenantWorth& worth);

// Why a client with this value of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT would have no memory limit at all, as one sentence
// with what to write instead; nothing where that is not known. `visible` are the UUIDs of the devices that the client
// may see, all of them; empty: not known, then only what is wrong for any device counts.
std::optional<std::string> lifting(std::string_view value, const std::vector<std::string>& visible);

}  // namespace tranche::mps
