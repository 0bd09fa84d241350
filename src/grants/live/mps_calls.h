#pragma once
// Asking `tranche mps` to end clients or to open and close endpoints: one line to mps.sock, one back. Loop thread only;
// answers are callbacks of the loop, and none comes after the object is destroyed. Ending clients takes seconds, and a
// connection is served one request at a time: each request uses a connection that is free, so that a request for the
// next tenant does not wait.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/pool/terminated.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"

namespace tranche::agent {

class MpsCalls {
 public:
  MpsCalls(host::Loop& loop, std::string socket) : loop_(loop), socket_(std::move(socket)) {}

  void terminate(const std::string& pool, const std::vector<std::uint32_t>& pids, const std::string& reason,
                 std::function<void(Result<std::vector<mps::Terminated>>)> done);
  // A drain request as `tranche mps` reads it; the reply as it came.
  void drain(std::string request, std::function<void(const Result<std::string>&)> done);
  void admit(const std::string& pool, const std::string& grant, bool open, const std::string& reason,
             std::function<void(Status)> done);

 private:
  struct Line {
    std::unique_ptr<host::StatusClient> client;
    bool busy = false;
  };
  void request(std::string line, Duration deadline, std::function<void(const Result<std::string>&)> done);

  host::Loop& loop_;
  std::string socket_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace tranche::agent
