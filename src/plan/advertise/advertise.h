#pragma once
// Plan and health → the device lists that kubelet should see now. Recovery takes the same path as failure: when a fault
// is no longer in Faults, its slots are healthy again. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_list.h"
#include "plan/plan.h"

namespace tranche::advertise {

// The present faults, each with its reason in one sentence. Absent = healthy.
struct Faults {
  std::map<std::string, std::string> devices;  // by device or GPU UUID; a GPU's fault covers its MIG devices
  std::map<std::string, std::string> pools;    // by PlannedPool::id: not serving
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

std::vector<Advertised> advertise(const plan::Plan& plan, const Faults& faults);

// Why slots of this device are unhealthy; absent if they are healthy.
std::optional<std::string> reason_unhealthy(const plan::PlannedDevice& device, const Faults& faults);

}  // namespace tranche::advertise
