#pragma once
// Keeps what `tranche mps` lets clients of each grant have equal to what their tenant is worth (guard/tenants.h): a
// container that holds several grants of a pool comes in by one of their endpoints and uses the devices of all. A
// grant's endpoint is opened with its own worth (endpoints.h); kubelet names the container only after that, and then
// each of its endpoints is told the worth of all. Until then a device that is not the grant's own has too little memory
// for a context, so a late word costs a client its start and gives nobody more. Loop thread only.
#include <map>
#include <string>
#include <utility>

#include "base/time.h"
#include "guard/tenants.h"
#include "mps/protocol/mps_link.h"
#include "mps/protocol/pools.h"
#include "os/loop/loop.h"

namespace tranche::agent {

// What the endpoints of a tenant are told; empty when it is not known on every device. Pure.
EndpointLimits limits_of(const guard::Tenant& tenant);

class EndpointKeeping {
 public:
  EndpointKeeping(host::Loop& loop, const std::string& mps_socket) : loop_(loop), link_(loop, mps_socket) {}

  // After every change of either; cheap when all endpoints are as they should be.
  void follow(const guard::Tenants& tenants, const PoolReports& pools);

 private:
  using Name = std::pair<std::string, std::string>;  // pool, grant
  struct Told {
    EndpointLimits limits;
    bool waiting = false;  // for the answer, or for a report that shows it
    int failures = 0;
    MonoTime not_before{};
  };
  void tell(const Name& endpoint, const EndpointLimits& limits);

  host::Loop& loop_;
  MpsLink link_;
  std::map<Name, Told> told_;  // endpoints that were not as they should be
};

}  // namespace tranche::agent
