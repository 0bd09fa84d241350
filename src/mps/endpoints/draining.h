#pragma once
// Terminates the clients of a container that is about to be stopped (docs/guide/stop-and-change.md). It decides which
// clients the stop signal would kill; has those stopped, waited for and killed, while the container's first process is
// stopped as well; and refuses new clients of the container until its first process has exited. A client that handles
// the stop signal is spared, unless the order includes all clients; if it has neighbours, it is paused until its queued
// work is over. A container that requests this itself costs one
// descriptor while it runs, and at most one log line a minute. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <set>
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
#include "os/worker/worker.h"
#include "termination/survival.h"

namespace tranche::agent {

using Terminated = std::vector<mps::Terminated>;
// Stops clients until their queued work is over and the signal has come; `on_idle` in between (pool/client_pauses.h).
using Pause = std::function<void(const EndpointName& endpoint, const std::vector<host::ProcessRef>& clients, int signal,
                                 std::function<void()> on_idle)>;
// Stops processes until terminate() has them or they are resumed.
using Hold = std::function<void(const EndpointName& endpoint, const std::vector<host::ProcessRef>& processes)>;
// Terminates clients of a pool: stop, wait, kill. One outcome for each client; all are stopped when it returns.
using Terminate = std::function<void(const std::string& pool, const host::EndRequest& request,
                                     std::function<void(const Terminated&)> done)>;

// The number of containers of one endpoint that are refused at a time; beyond it, the first one may connect again. A
// grant has one container, and for a moment its successor.
inline constexpr std::size_t kMostClosed = 4;

// How much of the loop's time a container may take with its own requests: after a request whose reads took more than
// kLongLook of processor time, further ones from the endpoint's containers are refused for kRestAfterReads times as
// long. A tenant determines the duration of a read (CpuBudget).
inline constexpr Duration kLongLook = std::chrono::milliseconds(20);

// How long a verdict about a client is valid: a container that asks without end costs one inspection a second.
inline constexpr Duration kJudgedFor = std::chrono::seconds(1);

struct PauseOfDrain {  // the clients that one request pauses
  std::vector<int> clients;
  bool idle = false;                   // their queued work is over
  std::function<void()> on_idle = {};  // what then remains to be done
};

struct DrainOrder {
  int caller = 0;  // a process of the container that is about to be stopped; 0: all containers that have clients here
  std::string reason = {};
  bool spare = false;   // leave clients that the stop signal does not kill
  int stop_signal = 0;  // 0: not known
  bool pause = false;   // clients that are spared, and react to the signal, which is about to be sent
  // Set by Draining: the caller's container; it has searched for the first processes of the containers, and stopped
  // these processes before that.
  std::string own = {};
  bool searched = false;
  std::vector<host::ProcessRef> stopped = {};
  std::shared_ptr<PauseOfDrain> paused = {};  // null: no client is paused
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
    // Empty: no client is paused.
    Pause pause = {};
    // Empty: no process is stopped before a search.
    Hold hold = {};
    std::function<void(const std::vector<host::ProcessRef>&)> resume = {};
    // Of each client, in order; absent: the request has too many clients.
    std::function<std::vector<std::optional<std::vector<int>>>(const std::vector<int>& clients)> ancestors = {};
    // The first processes of the containers that are closed now, for recall() of the next start. Empty: not kept.
    std::function<Status(const EndpointName&, const std::vector<host::ProcessRef>& first)> keep = {};
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
  // Closes the containers of these first processes again, without those that have exited.
  void recall(const EndpointName& endpoint, const std::vector<host::ProcessRef>& first);
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
  using Members = std::map<std::string, int>;  // of each container, one of its processes
  using FirstProcesses = std::map<std::string, host::ProcessRef>;
  // The container's first process, if the container is closed or an earlier search found it; absent: not known.
  std::optional<host::ProcessRef> first_of(const EndpointName& endpoint, const std::string& container) const;
  // The same, also if `topmost`, a client or its topmost ancestor in the container, is that process.
  std::optional<host::ProcessRef> first_of(const EndpointName& endpoint, const std::string& container,
                                           int topmost) const;
  void hold(const EndpointName& endpoint, const std::vector<int>& pids, DrainOrder& order);
  void resume(std::vector<host::ProcessRef> held, const std::set<int>& stay);
  void search(const EndpointName& endpoint, DrainOrder order, const Members& members, Reply reply);
  void searched(const EndpointName& endpoint, std::uint64_t number, const FirstProcesses& found);
  void close(const EndpointName& endpoint, const FirstProcesses& first, const Members& members);
  const Closed* find(const EndpointName& endpoint, const std::string& container) const;
  void close_one(const EndpointName& endpoint, const std::string& container, const host::ProcessRef& first);
  void keep(const EndpointName& endpoint);
  std::shared_ptr<PauseOfDrain> pause(const EndpointName& endpoint, const std::vector<int>& clients,
                                      std::size_t drained, int stop_signal);
  std::vector<stopping::Fate> fates_of(const std::vector<int>& pids, int stop_signal);
  void container_ended(EndpointName endpoint, std::string container);
  std::string not_ended(const EndpointName& endpoint, const std::string& container, const Terminated& all) const;

  host::Loop& loop_;
  Callbacks callbacks_;
  LogPace pace_;
  // A search reads all of /proc on a thread of its own, because a tenant may have any number of processes. An endpoint
  // has one at a time, so that a tenant's requests do not delay those of others.
  struct Searching {
    std::uint64_t number = 0;
    std::vector<std::pair<DrainOrder, Reply>> requests;  // the search is for the first; the others wait for its end
  };
  FirstProcesses searched_;  // that the last search found, by container
  std::map<EndpointName, Searching> searching_;
  std::uint64_t searches_ = 0;
  std::unique_ptr<host::Worker> worker_ = host::Worker::start();  // early: a pid limit may be reached later
  std::map<EndpointName, MonoTime> rests_;                        // until when requests from its containers are refused
  std::vector<Judged> judged_;                                    // not older than kJudgedFor, oldest first
  std::map<EndpointName, std::vector<Closed>> closed_;  // containers whose new clients are refused, oldest first
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // terminate() may answer after our end
};

}  // namespace tranche::agent
