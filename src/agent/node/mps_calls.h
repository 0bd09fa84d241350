#pragma once
// Asking `tranche mps` to do something for the guard: one line to mps.sock, one back. Loop thread only; answers are
// turns, and none comes after the object has gone.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/loop/loop.h"
#include "host/status/status_socket.h"
#include "mps/terminated.h"

namespace tranche::agent {

class MpsCalls {
 public:
  MpsCalls(host::Loop& loop, const std::string& socket) : client_(host::StatusClient::open(loop, socket)) {}

  void terminate(const std::string& pool, const std::vector<std::uint32_t>& pids, const std::string& reason,
                 std::function<void(Result<std::vector<mps::Terminated>>)> done);
  void admit(const std::string& pool, const std::string& grant, bool open, const std::string& reason,
             std::function<void(Status)> done);

 private:
  std::unique_ptr<host::StatusClient> client_;
};

}  // namespace tranche::agent
