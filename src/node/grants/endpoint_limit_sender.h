#pragma once
// Keeps the limits of each endpoint equal to the limits of its tenant (guard/tenant_shares.h): a container that holds
// several grants of a pool connects through one of their endpoints and uses the devices of all. `tranche mps` opens an
// endpoint with the limits of its own grant (endpoints.h). kubelet names the container only after that, and then each
// of its endpoints gets the limits of all its grants. Until then a device of a different grant has too little memory
// for a context: a late request delays a client's start, and no client gets more than its limits. Loop thread only.
#include <map>

#include "base/time.h"
#include "guard/tenant_shares.h"
#include "mps/protocol/mps_client.h"
#include "mps/protocol/pool_reports.h"
#include "os/loop/loop.h"

namespace tranche::node {

// The limits for the endpoints of a tenant; empty while they are not known for every device. Pure.
mps::GrantLimits limits_of(const guard::Tenant& tenant);

class EndpointLimitSender {
 public:
  EndpointLimitSender(os::Loop& loop, mps::MpsClient& mps) : loop_(loop), mps_(mps) {}

  // After every change of either; cheap when all endpoints are as they should be.
  void follow(const guard::Tenants& tenants, const mps::PoolReports& pools);

 private:
  struct Requested {
    mps::GrantLimits limits;
    bool waiting = false;  // for the answer, or for a report that shows it
    int failures = 0;
    MonoTime not_before{};
  };
  void request(const mps::EndpointName& endpoint, const mps::GrantLimits& limits);

  os::Loop& loop_;
  mps::MpsClient& mps_;
  std::map<mps::EndpointName, Requested> requested_;  // endpoints that were not as they should be
};

}  // namespace tranche::node
