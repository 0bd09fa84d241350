#pragma once
// Private to SocketRelay: an endpoint of a grant, its listening socket and its counts. Loop thread only.
#include <cstddef>
#include <functional>
#include <utility>

#include "mps/relay/relay.h"
#include "mps/relay/tenant_sockets.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

struct RelayEndpoint {
  RelayEndpoint(Loop& loop, std::function<void()> on_closed) : sockets(loop, std::move(on_closed)), pause(loop) {}
  TenantSockets sockets;
  Fd listening;
  Loop::Id watch = 0;
  Timer pause;
  bool waits = false;
  std::size_t connections = 0;
  std::size_t handshakes = 0;
  EndpointCounters counters;
};

}  // namespace tranche::host
