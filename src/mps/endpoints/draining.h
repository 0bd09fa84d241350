#pragma once
// Terminates the clients of a container that is about to be stopped (docs/guide/stop-and-change.md). It decides which
// clients the stop signal would kill; has those stopped, waited for and killed, while the container's first process is
// stopped as well; and refuses new clients of the container until its first process has exited. A client that handles
// the stop signal is spared, unless the order includes all clients. A container that requests this itself costs one
// descriptor while it runs, and at most one log line a minute. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "mps/endpoints/endpoint_log.h"
#include "mps/pool/client_ending.h"
#include "mps/pool/terminated.h"
#include "mps/protocol/replies.h"
#include "mps/protocol/requests.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "termination/survival.h"

namespace tranche::agent {

using Terminated = std::vector<mps::Terminated>;
// Terminates clients of a pool: stop, wait, kill. One outcome for each client; all are stopped when it returns.
using Terminate = std::function<void(const std::string& pool, const host::EndRequest& request,
                                     std::function<void(const Terminated&)> done)>;

// The number of containers of one endpoint that are refused at a time; beyond it, the first one may connect again. A
// grant has one container, and for a moment its successor.
inline constexpr std::size_t kMostClosed = 4;

// How long a verdict about a client is valid: a container that asks without end costs one inspection a second.
inline constexpr Duration kJudgedFor = std::chrono::seconds(1);

struct DrainOrder {
  int caller = 0;  // a process of the container that is about to be stopped; 0: all containers that have clients here
  std::string reason = {};
  bool spare = false;   // leave clients that the stop signal does not kill
  int stop_signal = 0;  // 0: not known
};

class Draining {
 public:
  struct Callbacks {
    std::function<std::vector<int>(const EndpointName&)> clients;  // clients that connected through this endpoint
    std::function<std::size_t(const EndpointName&)> neighbours;    // number of clients of other grants in its pool
    Terminate terminate;
    std::function<void()> on_change;  // a container was closed or reopened
    // From /proc (termination/live). Empty: every client dies of its stop signal, and no ancestors are known.
    std::function<std::vector<stopping::Fate>(const std::vector<int>& clients, int stop_signal)> fates = {};
    // Of each client, in order; absent: the request has too many clients.
    std::function<std::vector<std::optional<std::vector<int>>>(const std::vector<int>& clients)> ancestors = {};
  };
  using Reply = std::function<void(const std::string& json)>;

  Draining(host::Loop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}
  Draining(const Draining&) = delete;
  Draining& operator=(const Draining&) = delete;

  // `reply` runs once, inside drain() or later; it never runs after this object is destroyed.
  void drain(const EndpointName& endpoint, const DrainOrder& order, Reply reply);
  // Why this process may not connect; "" if no drain refuses it.
  std::string refuses(const EndpointName& endpoint, int pid) const;
  bool closed(const EndpointName& endpoint) const { return closed_.contains(endpoint); }
  void forget(const EndpointName& endpoint);

 private:
  struct Closed {
    std::string container;                 // container_of()
    std::unique_ptr<host::Process> first;  // its first process
  };
  struct Judged {
    host::ProcessRef client;
    int stop_signal = 0;
    stopping::Fate fate;
    MonoTime at;
  };
  // Each with a process from which to find its first one: a client's known first process, or any process of it.
  using Containers = std::map<std::string, int>;
  void close(const EndpointName& endpoint, const Containers& first, const Containers& members);
  std::vector<stopping::Fate> fates_of(const std::vector<int>& pids, int stop_signal);
  void container_ended(const EndpointName& endpoint, const std::string& container);
  std::string not_ended(const EndpointName& endpoint, const std::string& container, const Terminated& all) const;

  host::Loop& loop_;
  Callbacks callbacks_;
  LogPace pace_;
  std::vector<Judged> judged_;                          // not older than kJudgedFor, oldest first
  std::map<EndpointName, std::vector<Closed>> closed_;  // containers whose new clients are refused, oldest first
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // terminate() may answer after our end
};

}  // namespace tranche::agent
