#pragma once
// Checks the limits that a tenant sets for itself in its pod (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE,
// CUDA_MPS_PINNED_DEVICE_MEM_LIMIT) by the driver's rules: values that the driver does not understand, and values above
// the grant, which have no effect. The remarks are for people: no limit relies on them, and the server and the guard
// enforce the grant whatever the driver makes of a value. Pure; fuzzed.
//
// Two functions on purpose. remarks_on() reports whatever is not known to work. lifting() causes a client to be
// refused, so it reports only what is known to lift the limit; the guard covers the rest.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mps/limits/limits.h"

namespace tranche::mps {

struct TenantRemark {
  bool understood = false;  // true: it is valid but has no effect
  std::string message;      // one sentence: the value, its effect, and what to write instead
  friend bool operator==(const TenantRemark&, const TenantRemark&) = default;
};

// On the values of the two variables; "": the pod does not set it. At most one for each; none for a valid value.
// `granted`: the memory of every device that the container sees, 0 where it is not limited.
std::vector<TenantRemark> remarks_on(const std::string& threads, const std::string& memory,
                                     const DaemonLimits& granted);

// Why a client with this value of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT would have no memory limit at all, as one sentence
// with what to write instead; absent if that is not known. `visible` are the UUIDs of all devices that the client may
// see. Empty: not known; then only faults that apply to any device are reported.
std::optional<std::string> lifting(std::string_view value, const std::vector<std::string>& visible);

}  // namespace tranche::mps
