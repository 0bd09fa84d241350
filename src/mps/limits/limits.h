#pragma once
// The limits that a control daemon has to enforce, and whether the limits that it reports are the same. Memory is
// limited for each device by UUID. The daemon has one thread percentage, so a pool of different devices gets its
// largest, and clients lower it for themselves. Pure.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "mps/protocol/requests.h"
#include "plan/plan.h"

namespace tranche::mps {

using DeviceMemory = std::pair<std::string, Bytes>;  // device UUID, limit
struct DaemonLimits {
  std::vector<DeviceMemory> memory;  // whole MiB
  Percent threads = Percent::whole(100);
  friend bool operator==(const DaemonLimits&, const DaemonLimits&) = default;
};
DaemonLimits limits_of(const plan::PlannedPool& pool);  // the pool's own, which are its largest; one on every device
std::optional<Bytes> memory_limit_of(const DaemonLimits& limits, const std::string& uuid);
// The limits that the daemon and its servers hold for clients of this grant: one on every device of the pool. The
// driver applies the limit of the pool's n-th device to the n-th device that the client sees (measured:
// docs/internals/evidence/shares.md), and a container sees the devices that it holds. The pool's first devices
// therefore get the limits of the grant's devices, and the others the smallest of these, for a client that sees more.
// Such a client may take memory of a device that it does not hold; the guard ends it. The thread percentage applies to
// a whole process on all devices, so it is the grant's smallest. kInvalid: the grant holds no device of the pool.
Result<DaemonLimits> limits_for(const GrantLimits& grant, std::span<const std::string> pool_devices);

// "4096M", "4GB": a whole number with a unit, as the daemon prints and clients write it. Absent: another text, or zero.
std::optional<Bytes> amount_of(std::string_view text);

// As the daemon's getter prints it: whole G rounded down, M below 1 G; percentages with one decimal.
std::string as_printed(Bytes limit);
std::string as_printed(Percent threads);

// "" if the daemon, or one of its servers, holds what was set, else a sentence that names the first difference. The
// getter prints memory in whole G, rounded down, or in M below 1 G, and percentages with one decimal: 14377 MiB and
// "14G", 500 MiB and "500M", 10 and "10.0" agree.
std::string disagreement(const DaemonLimits& expected, const DaemonLimits& read);

// Warns that a server is nearly full; "" below nine tenths of `most`. The driver refuses clients beyond the limit
// (measured: of 64 on an H200, 16 failed with "busy or unavailable"), so the note appears before that.
std::string capacity_note(std::uint32_t live, std::uint32_t most);

// --- the limits that a tenant sets for itself ------------------------------------------------------------------------

// Checks the limits that a tenant sets for itself in its pod (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE,
// CUDA_MPS_PINNED_DEVICE_MEM_LIMIT) by the driver's rules: values that the driver does not understand, and values above
// the grant, which have no effect. The remarks are for people: no limit relies on them, and the server and the guard
// enforce the grant whatever the driver makes of a value. Pure; fuzzed.
//
// Two functions on purpose. remarks_on() reports whatever is not known to work. lifting() causes a client to be
// refused, so it reports only what is known to lift the limit; the guard covers the rest.

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
