#pragma once
// The connections of `tranche node` to `tranche mps` on mps.sock (docs/internals/mps-contract.md, "Requests"). One
// object serves the whole program, so that the requests about one endpoint are carried out in the order of the calls.
// Connects on demand, and again after a lost connection; a request whose connection was lost is not repeated. Loop
// thread only; gRPC's threads use make_endpoint() of node/grants/answers.cpp.
//
// Ending clients takes seconds, so that a request for the next tenant does not wait for it.
#include <functional>
#include <memory>
#include <string>

#include "mps/protocol/pool_reports.h"
#include "mps/protocol/requests.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"

namespace tranche::mps {

class MpsClient {
 public:
  MpsClient(os::Loop& loop, const std::string& mps_root);  // the directory of mps.sock

  // Each `done` runs once, in a callback of its own, and never after this object is destroyed: it may refer only to
  // what exists as long as the loop runs. `clients`: of a request to terminate.
  using Done = std::function<void(const Result<std::vector<Terminated>>& clients)>;
  void request(const MpsRequest& request, Done done);

  // Calls it with each report of the pools, and with a report that is not connected when `tranche mps` does not answer.
  void follow(std::function<void(const PoolReports& reports)> on_reports);

 private:
  os::Loop& loop_;
  std::string socket_;
  os::StatusClient client_;
  std::unique_ptr<os::StatusWatcher> watcher_;
};

std::string mps_socket(const std::string& mps_root);

}  // namespace tranche::mps
