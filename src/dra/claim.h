#pragma once
// A ResourceClaim as the API server has it → what it allocates of one driver's devices. Checks the shape of the object
// and that it is the claim that kubelet asks for; whether the devices exist and have room is for dra/prepare.h. Strict
// about everything that is used: a field of a wrong type, a negative amount and a configuration that is too long are
// errors that name the field and the remedy. Unused fields are accepted, because newer API servers have more.
// Pure; fuzzed.
#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::dra {

inline constexpr std::size_t kMostResults = 32;              // what the API allows
inline constexpr std::size_t kMostConfigs = 64;              //
inline constexpr std::size_t kLargestParameters = 10 << 10;  // bytes of one configuration

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

struct OpaqueConfig {
  bool from_class = false;            // else from the claim, which comes before its class
  std::vector<std::string> requests;  // without subrequests; empty: all
  std::string parameters;             // JSON text of an object
  std::string field = {};             // the path of the parameters, for errors
  friend bool operator==(const OpaqueConfig&, const OpaqueConfig&) = default;
};

struct Claim {
  ClaimName name;
  std::vector<Allocated> devices;     // of this driver, in the order of the results; never empty
  std::vector<OpaqueConfig> configs;  // for this driver
  std::string pod;                    // for which it was made from a template; "": any pod may use it
  std::string pod_uid = {};           // its UID
  friend bool operator==(const Claim&, const Claim&) = default;
};

// Errors: kInvalid (not a ResourceClaim, a field that cannot be used, no device of this driver), kConflict (another
// claim has this name now), kUnavailable (not allocated).
Result<Claim> read_claim(std::string_view json, const ClaimName& asked, std::string_view driver);

}  // namespace tranche::dra
