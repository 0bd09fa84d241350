#pragma once
// Private to mps: clients whose limits may not be their own yet. Two words say that they are, in either order: the
// client's, that its server has it, and the server's log, which is waited for only so long (mps/relay/handshake.h,
// RelayTimes). Loop thread only.
#include <cstdint>
#include <functional>
#include <map>

#include "base/time.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

class RelaySettling {
 public:
  RelaySettling(Loop& loop, std::function<void(std::uint64_t id)> settled)
      : loop_(loop), settled_(std::move(settled)) {}
  RelaySettling(const RelaySettling&) = delete;
  RelaySettling& operator=(const RelaySettling&) = delete;

  void introduced(std::uint64_t id, int pid);
  // The client has said its word. true: that is all there was to wait for; else settled() comes, after `patience` at
  // the latest.
  bool let_in(std::uint64_t id, Duration patience);
  void server_took(int pid);
  void left(std::uint64_t id);  // its connection ended: before its word nothing is waited for any more

 private:
  struct Client {
    Client(Loop& loop, int of) : pid(of), timer(loop) {}
    int pid = 0;
    bool taken = false;  // as the log says
    bool in = false;     // as it says itself
    Timer timer;
  };
  void finish(std::uint64_t id);

  Loop& loop_;
  std::function<void(std::uint64_t)> settled_;
  std::map<std::uint64_t, Client> clients_;
};

}  // namespace tranche::host
