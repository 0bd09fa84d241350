#pragma once
// Sends requests of `tranche node` to `tranche mps` (docs/internals/mps-contract.md, "Requests"): lines of JSON over
// mps.sock, one after the other. Connects on demand, and again after a lost connection. Loop thread only; gRPC's
// threads use grants/live/make_endpoint.h.
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

  // `done` gets the reply's line if it has {"ok":true,…}; otherwise an error with the reply's text, or why there is no
  // reply. It runs in a callback of its own.
  void request(std::string json, Done done, Duration deadline = std::chrono::seconds(5));

 private:
  std::unique_ptr<host::StatusClient> client_;
};

// The reply's line, or the error that it reports. Pure.
Result<std::string> read_mps_reply(const std::string& line);
// `made` is the number from the endpoint's report, so that a newer endpoint of the grant stays; 0: any.
std::string remove_endpoint_request(const std::string& pool, const std::string& grant, std::uint64_t made);
// `limits` is what clients that come by that endpoint get; it replaces what was said before for clients to come.
// `new_tenant`: nothing of the endpoint's former tenant may reach this one.
// `any_pod`: clients of several pods may come by it. `pod`: only those of the pod with this UID; "": of the first.
std::string open_endpoint_request(const std::string& pool, const std::string& grant, const EndpointLimits& limits,
                                  bool new_tenant = false, bool any_pod = false, const std::string& pod = {});
// Whether this reply refuses `new_tenant` as a field that an older `tranche mps` does not know.
bool lacks_new_tenant(const Error& refused);

}  // namespace tranche::agent
