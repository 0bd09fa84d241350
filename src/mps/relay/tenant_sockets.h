#pragma once
// Closes the sockets of one endpoint that tenants are, or may be, connected to, and other files of tenants. A tenant
// can leave in such a socket the descriptor of a file whose release takes long (a TCP connection with SO_LINGER and
// unsent bytes, a memfd of 100 GB), and close(2) then waits for it. Sockets in which descriptors were left are closed
// on a thread, which lives only for endpoints where that happened; the peer sees the end of its connection at once. The
// thread interrupts the waits that can be interrupted (SO_LINGER), because what waits behind one may hold much: the
// channels of an MPS client hold its GPU memory.
// Loop thread only. Never waits for a tenant; a thread that does when this is destroyed is left behind.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::mps {

class TenantSockets {
 public:
  TenantSockets(os::Loop& loop, std::function<void()> on_closed)  // one of closing() less
      : loop_(loop), on_closed_(std::move(on_closed)) {}
  ~TenantSockets();
  TenantSockets(const TenantSockets&) = delete;
  TenantSockets& operator=(const TenantSockets&) = delete;

  void close(os::Fd connection);                    // with SO_PASSCRED, as listen_in() makes them
  void close_listening(os::Fd listening);           // and the connections that it has not accepted
  void close_file(os::Fd file);                     // of any kind: on the thread
  std::size_t closing() const { return closing_; }  // descriptors that are not closed yet

 private:
  os::Loop& loop_;
  std::function<void()> on_closed_;
  std::vector<os::Fd> waiting_;  // for a thread
  std::size_t closing_ = 0;
  std::unique_ptr<os::Worker> worker_;
};

}  // namespace tranche::mps
