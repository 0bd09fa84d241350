#pragma once
// What pods ask for through Dynamic Resource Allocation, as people write it: ResourceClaim, ResourceClaimTemplate and
// DeviceClass of resource.k8s.io/v1. Plain values; read by read_pods (pods.h).
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/problem.h"
#include "dra/claim.h"
#include "simulate/selector.h"

namespace tranche::simulate {

// Devices of one class: `exactly` of a request, or one entry of its `firstAvailable`.
struct DeviceAsk {
  std::string name = {};  // of a subrequest; else ""
  std::string device_class;
  std::vector<Selector> selectors;
  bool all = false;  // allocationMode: All
  std::uint64_t count = 1;
  bool admin_access = false;
  std::map<std::string, std::uint64_t> capacity;  // a fraction is rounded up
  friend bool operator==(const DeviceAsk&, const DeviceAsk&) = default;
};

struct ClaimRequest {
  std::string name;
  std::vector<DeviceAsk> either;  // in order of preference; one for `exactly`
  friend bool operator==(const ClaimRequest&, const ClaimRequest&) = default;
};

struct ClaimConstraint {
  std::vector<std::string> requests;  // empty: all
  std::string attribute;              // qualified
  bool distinct = false;              // else all have the same value
  friend bool operator==(const ClaimConstraint&, const ClaimConstraint&) = default;
};

struct OpaqueAsk {
  std::string driver;
  dra::OpaqueConfig config;  // requests with subrequests, as written
  friend bool operator==(const OpaqueAsk&, const OpaqueAsk&) = default;
};

struct ClaimSpec {
  std::vector<ClaimRequest> requests;
  std::vector<ClaimConstraint> constraints;
  std::vector<OpaqueAsk> configs;
  Place place = {};
  friend bool operator==(const ClaimSpec& a, const ClaimSpec& b) {
    return a.requests == b.requests && a.constraints == b.constraints && a.configs == b.configs;
  }
};

struct ClassSpec {
  std::vector<Selector> selectors;
  std::string extended_resource = {};  // that pods can name in place of a claim
  std::vector<OpaqueAsk> configs = {};
  std::string created = {};  // of two classes with one extended resource the newest counts
  Place place = {};
};

struct ClaimObjects {
  std::map<std::string, ClaimSpec> claims;     // by "namespace/name"
  std::map<std::string, ClaimSpec> templates;  // likewise
  std::map<std::string, ClassSpec> classes;    // by name
};

inline constexpr std::string_view kNvidiaDriver = "gpu.nvidia.com";

// The classes that the chart installs for a driver: deploy/dra/classes.yaml, and for NVIDIA's name nvidia-classes.yaml.
std::map<std::string, ClassSpec> chart_classes(const std::string& driver);

}  // namespace tranche::simulate
