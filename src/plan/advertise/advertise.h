#pragma once
// Plan and health → the device lists that kubelet should see now. Recovery takes the same path as failure: when a fault
// is no longer in Faults, its slots are healthy again. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_list.h"
#include "gpu/health/healthchecks.h"
#include "plan/plan.h"

namespace tranche::plan {

// The present faults. Absent = healthy.
struct Faults {
  std::map<std::string, gpu::Unhealthy> devices;  // by device or GPU UUID; a GPU's fault covers its MIG devices
  std::map<std::string, std::string> pools;       // by PlannedPool::id: not serving, with the reason in one sentence
  friend bool operator==(const Faults&, const Faults&) = default;
};

struct AdvertisedSlot {
  std::string id;
  bool healthy = true;
  std::optional<std::uint32_t> numa_node;
  friend bool operator==(const AdvertisedSlot&, const AdvertisedSlot&) = default;
};

struct Advertised {
  std::string resource;
  SharedList<AdvertisedSlot> slots;  // by device in driver order, then by ordinal
  friend bool operator==(const Advertised&, const Advertised&) = default;
};

// Slots that kubelet sees but must not allocate, although they are not faulty, by resource and slot id, with the
// reason: those that containers still hold from before a change of configuration, and those that the change cannot
// offer yet (src/grants/change). kubelet sees them as unhealthy, so it neither allocates them nor takes them from their
// holders. A slot or resource that is not in the plan is advertised as long as it is listed here.
using Withheld = std::map<std::string, std::map<std::string, std::string>>;

std::vector<Advertised> advertise(const plan::Plan& plan, const Faults& faults, const Withheld& withheld = {});

// Why this slot must not be allocated now; nullptr = not withheld.
const std::string* reason_withheld(const Withheld& withheld, const std::string& resource, const std::string& slot);

// Why slots of this device are unhealthy; absent if they are healthy.
std::optional<gpu::Unhealthy> fault_of(const plan::PlannedDevice& device, const Faults& faults);

}  // namespace tranche::plan
