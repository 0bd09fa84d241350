#pragma once
// The slots that containers hold, as a change of the plan needs them, and how a device is shared. Pure values.
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "config/model.h"
#include "plan/plan.h"

namespace tranche::grants {

// The slots that one container holds of one device.
struct HeldShare {
  std::string resource;  // of the request
  std::string device;    // UUID
  std::vector<std::string> slots;
  std::string pool;  // the MPS pool at the time of the allocation; "" = none
  Bytes memory;      // the sum of their memory limits; 0 = not limited, or not known
  friend bool operator==(const HeldShare&, const HeldShare&) = default;
};

struct Holdings {
  std::string unknown;  // why the holders are not known; "" = they are known
  std::vector<HeldShare> held;
  friend bool operator==(const Holdings&, const Holdings&) = default;
};

// How a device is shared. This changes only while no container holds a slot of the device: a process that uses MPS and
// one that does not cannot share it, and neither can clients of two daemons.
struct SharingMode {
  config::SharingStrategy strategy = config::SharingStrategy::kNone;
  std::string pool;  // of MPS
  friend bool operator==(const SharingMode&, const SharingMode&) = default;
};
SharingMode mode_of(const plan::PlannedDevice& device);
SharingMode mode_of(const HeldShare& share);

// The device of a resource, of the resource of that name, or of any; nullptr = none.
const plan::PlannedDevice* find_device(const plan::PlannedResource& resource, std::string_view uuid);
const plan::PlannedDevice* find_device(const plan::Plan& plan, std::string_view resource, std::string_view uuid);
const plan::PlannedDevice* find_device(const plan::Plan& plan, std::string_view uuid);
// Whether an id is one of the device's slots.
bool is_slot_of(const plan::PlannedDevice& device, std::string_view id);

}  // namespace tranche::grants
