#pragma once
// `tranche node`'s requests to `tranche mps` (docs/internals/mps-contract.md, "Requests"): lines of JSON over mps.sock,
// asked one after the other; the connection is made when it is needed and again when it was lost. Loop thread only; for
// gRPC's threads there is grants/live/make_endpoint.h.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mps/protocol/pools.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"

namespace tranche::agent {

class MpsLink {
 public:
  using Done = std::function<void(const Result<std::string>& reply)>;

  MpsLink(host::Loop& loop, const std::string& mps_socket) : client_(host::StatusClient::open(loop, mps_socket)) {}

  // The reply's line when it says {"ok":true,…}; its own words, or why none came, as an error. A turn of its own.
  void request(std::string json, Done done, Duration deadline = std::chrono::seconds(5));

 private:
  std::unique_ptr<host::StatusClient> client_;
};

// The reply's line, or what it says against the request. Pure.
Result<std::string> read_mps_reply(const std::string& line);
// `made` as its report has it, so that an endpoint that was made anew meanwhile stays; 0: whichever there is.
std::string remove_endpoint_request(const std::string& pool, const std::string& grant, std::uint64_t made);
// `limits` is what clients that come by that endpoint get; it replaces what was said before for clients to come.
// `new_tenant`: nothing of the endpoint's former tenant may reach this one.
// `any_pod`: clients of several pods may come by it. `pod`: only those of the pod with this UID; "": of the first.
std::string open_endpoint_request(const std::string& pool, const std::string& grant, const EndpointLimits& limits,
                                  bool new_tenant = false, bool any_pod = false, const std::string& pod = {});
// Whether this reply refuses `new_tenant` as a field that an older `tranche mps` does not know.
bool lacks_new_tenant(const Error& refused);

}  // namespace tranche::agent
