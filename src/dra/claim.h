#pragma once
// A ResourceClaim as the API server has it → what it allocates of one driver's devices. Checks that it is the claim
// that kubelet asks for; whether the devices exist and have room is for dra/prepare.h. The API server has checked the
// types of fields, the lengths of lists and all names (pkg/apis/resource/validation): that is not repeated here.
//
// Opaque configurations of claims and device classes have the kinds of NVIDIA's DRA driver
// (resource.nvidia.com/v1beta1: GpuConfig, MigDeviceConfig), and are read as strictly as there: an unknown field, a
// wrong type or a value out of range is an error that names the field and states what to write. What a configuration
// does to the devices is decided in dra/prepare.cpp. Pure; fuzzed.
#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "dra/dra_devices.h"

namespace tranche::dra {

// The remedy where a claim cannot be served as it is.
inline constexpr const char* kCreateAgain = "delete the claim and its pods, and create them again";

// kInvalid: what is wrong with a field of a claim, and the remedy.
std::unexpected<Error> wrong_field(const std::string& field, std::string_view what,
                                   std::string_view remedy = kCreateAgain);
Result<std::uint64_t> read_quantity(const nlohmann::json& value, const std::string& field,
                                    std::string_view remedy = kCreateAgain);

// As kubelet names it.
struct ClaimName {
  std::string claim_namespace;
  std::string name;
  std::string uid;
  friend auto operator<=>(const ClaimName&, const ClaimName&) = default;
};
std::string to_string(const ClaimName& claim);  // "team-a/train (uid)"

// One allocated device, or one share of it.
struct Allocated {
  std::string request;   // without the subrequest
  std::string pool;      //
  std::string device;    //
  std::string share_id;  // "": the device is not shared
  bool admin_access = false;
  std::map<std::string, std::uint64_t> consumed;  // by capacity; what the scheduler granted
  friend bool operator==(const Allocated&, const Allocated&) = default;
};

struct DeviceConfig {
  enum class For { kGpu, kMig };
  enum class Strategy { kNone, kTimeSlicing, kMps };  // kNone: `sharing` is absent
  bool from_class = false;                            // else from the claim, which comes before its class
  std::vector<std::string> requests = {};             // without subrequests; empty: all
  std::string field = {};                             // the path of the parameters, for errors
  For device = For::kGpu;
  Strategy strategy = Strategy::kNone;
  std::uint32_t threads = 0;  // percent of the SMs that each process gets; 0: not limited
  Bytes memory = {};          // of each process on each device, whole MiB; 0: not limited
  // The same on one device, by UUID or by place among the request's devices.
  std::map<std::string, Bytes> memory_on = {};
  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

struct Claim {
  ClaimName name;
  std::vector<Allocated> devices;     // of this driver, in the order of the results; never empty
  std::vector<DeviceConfig> configs;  // for this driver, in the claim's order
  std::string pod;                    // for which it was made from a template; "": any pod may use it
  std::string pod_uid = {};           // its UID
  friend bool operator==(const Claim&, const Claim&) = default;
};

// Errors: kInvalid (a field that cannot be used, no device of this driver), kConflict (another claim has this name
// now), kUnavailable (not allocated).
Result<Claim> read_claim(std::string_view json, const ClaimName& asked, std::string_view driver);

// `field`: where the parameters are, for errors (kInvalid). Of no requests yet.
Result<DeviceConfig> read_device_config(const nlohmann::json& parameters, const std::string& field);

// Which of them applies to a request whose device is of this kind: of those that name the request or no request the
// last one, the claim's before its class's, as with NVIDIA's driver. One that names the request must be for its kind of
// device. nullptr: none.
Result<const DeviceConfig*> config_of(const std::vector<DeviceConfig>& configs, const std::string& request, Kind kind);

}  // namespace tranche::dra
