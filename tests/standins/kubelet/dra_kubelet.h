#pragma once
// kubelet as a driver of Dynamic Resource Allocation sees it: registers the driver whose socket is in the registry
// directory, and calls it to prepare and unprepare claims. No state, no retries. Calls block up to a deadline; no
// threads of its own.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tranche::sim {

struct DraClaimRef {
  std::string claim_namespace;
  std::string name;
  std::string uid;
};

struct DraPreparedDevice {
  std::vector<std::string> requests;
  std::string pool;
  std::string device;
  std::string share_id;
  std::vector<std::string> cdi_ids;
  friend bool operator==(const DraPreparedDevice&, const DraPreparedDevice&) = default;
};

struct DraPrepared {
  std::vector<DraPreparedDevice> devices;
  std::string error;
  friend bool operator==(const DraPrepared&, const DraPrepared&) = default;
};

class DraKubelet {
 public:
  // GetInfo, NotifyRegistrationStatus. kInvalid: kubelet would refuse the driver.
  static Result<std::unique_ptr<DraKubelet>> register_driver(const std::string& registry_socket);
  virtual ~DraKubelet() = default;

  virtual const std::string& driver() const = 0;
  virtual const std::string& endpoint() const = 0;
  // By UID of the claim. An error is a call that failed as a whole.
  virtual Result<std::map<std::string, DraPrepared>> prepare(const std::vector<DraClaimRef>& claims) = 0;
  virtual Result<std::map<std::string, std::string>> unprepare(const std::vector<DraClaimRef>& claims) = 0;  // errors
  // The first message of the health stream, v1alpha1: "pool/device" → "HEALTHY", or the reason.
  virtual Result<std::map<std::string, std::string>> health() = 0;
};

}  // namespace tranche::sim
