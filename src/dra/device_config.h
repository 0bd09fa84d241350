#pragma once
// Opaque configurations of claims and device classes, in the kinds of NVIDIA's DRA driver (resource.nvidia.com/v1beta1:
// GpuConfig, MigDeviceConfig), and which of them applies to a request. Strict as NVIDIA's: an unknown field, a wrong
// type or a value out of range is an error that names the field and states what to write. What a configuration does to
// the devices is decided in dra/prepare.cpp. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "dra/claim.h"
#include "dra/dra_devices.h"

namespace tranche::dra {

inline constexpr std::string_view kNvidiaConfigVersion = "resource.nvidia.com/v1beta1";

struct DeviceConfig {
  enum class For { kGpu, kMig };
  enum class Strategy { kNone, kTimeSlicing, kMps };  // kNone: `sharing` is absent
  For device = For::kGpu;
  Strategy strategy = Strategy::kNone;
  std::string interval = {};  // of kTimeSlicing: "Default", "Short", "Medium", "Long"
  std::uint32_t threads = 0;  // percent of the SMs that each process gets; 0: not limited
  Bytes memory = {};          // of each process on each device, whole MiB; 0: not limited
  std::map<std::string, Bytes> memory_on =
      {};  // the same on one device, by UUID or by place among the request's devices
  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

// `parameters`: JSON text; `field`: where it is, for errors (kInvalid).
Result<DeviceConfig> read_device_config(std::string_view parameters, const std::string& field);

// All of the claim's, in its order: one that applies to nothing must be right too.
Result<std::vector<DeviceConfig>> read_device_configs(const Claim& claim);

// Which of them applies to a request whose device is of this kind: of those that name the request or no request the
// last one, the claim's before its class's, as with NVIDIA's driver. One that names the request must be for its kind of
// device. nullopt: none.
Result<std::optional<std::size_t>> config_of(const Claim& claim, const std::vector<DeviceConfig>& configs,
                                             const std::string& request, Kind kind);

// What of its configurations does nothing here, one sentence each.
std::vector<std::string> without_effect(const Claim& claim);

}  // namespace tranche::dra
