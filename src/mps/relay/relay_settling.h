#pragma once
// Private to mps: tracks clients whose limits may still change. Two confirmations end this, in either order: the
// client's, that it is connected to its server, and the server's log, which is awaited for a bounded time
// (mps/relay/handshake.h, RelayTimes). Loop thread only.
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
  // The client has confirmed. true: nothing else is awaited. false: settled() follows, after `patience` at the latest.
  bool let_in(std::uint64_t id, Duration patience);
  void server_took(int pid);
  void left(std::uint64_t id);  // its connection ended: without its confirmation nothing is awaited any more

 private:
  struct Client {
    Client(Loop& loop, int of) : pid(of), timer(loop) {}
    int pid = 0;
    bool taken = false;  // from the server's log
    bool in = false;     // from the client's confirmation
    Timer timer;
  };
  void finish(std::uint64_t id);

  Loop& loop_;
  std::function<void(std::uint64_t)> settled_;
  std::map<std::uint64_t, Client> clients_;
};

}  // namespace tranche::host
