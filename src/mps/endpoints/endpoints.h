#pragma once
// The endpoints of one pool: the directories `<mps-root>/pools/<pool>/endpoints/<grant>` with their socket `control`.
// It is a relay's (mps/relay/relay.h). With `sharing.mps.endpoint: link`, or if the daemon's greeting is not the
// expected one, it is a hard link to the daemon's own socket, which lets tenants with root send commands to the daemon;
// the pool's status gives the reason.
//
// It also answers the requests on mps.sock (requests.h). Loop thread only.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/find_in.h"
#include "config/model.h"
#include "grants/allocate/grant.h"
#include "mps/daemon/ping.h"
#include "mps/keeper/keeper.h"
#include "mps/pool/pool_daemon.h"
#include "mps/protocol/requests.h"
#include "mps/relay/relay.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "os/worker/worker.h"

namespace tranche::mps {

// Limits the rate of log lines about tenants, so that no tenant can fill the node's disk: the first event at once, then
// at most one line a minute for each grant and kind of event. A plain value.
class LogPace {
 public:
  // The number of events since the last line; absent: no line now.
  std::optional<std::uint64_t> due(const std::string& grant, std::string_view kind, MonoTime now) {
    const auto [found, first] = last_lines_.try_emplace({grant, std::string(kind)});
    LogState& state = found->second;
    if (!first && now - state.at < std::chrono::minutes(1)) {
      ++state.since;
      return std::nullopt;
    }
    state.at = now;
    return std::exchange(state.since, 0);
  }
  void forget(const std::string& grant) {
    std::erase_if(last_lines_, [&](const auto& entry) { return entry.first.first == grant; });
  }

 private:
  struct LogState {
    MonoTime at{};
    std::uint64_t since = 0;  // events without a line
  };
  std::map<std::pair<std::string, std::string>, LogState> last_lines_;
};

// The files about the grants of a pool, `<mps-root>/pools/<pool>/limits/<grant>`: beside the endpoints and not in them,
// so that no container ever sees them. A file is written before the endpoint listens and goes after it, so that there
// is never an endpoint whose limits were forgotten; one that an interrupted start leaves is replaced by the grant's
// next endpoint.
Result<EndpointTerms> read_terms(const std::string& folder,
                                 const std::string& grant);  // the default ones without a file
Status keep_terms(const std::string& folder, const std::string& grant, const EndpointTerms& terms);

// Inspects a process before it becomes a client. A process that started with an environment that lifts its memory limit
// is refused, because the driver would enforce no limit at all for it (mps/limits/limits.h). This catches mistakes, not
// attacks: for a process that changes its environment after its start, the guard enforces the limit.
//
// The kernel reads /proc/<pid>/environ from the process's memory, and may wait for as long as that process likes. So a
// thread of its own does it, with a deadline. While that thread is blocked, no process is inspected and every process
// is admitted. Loop thread only.
class ClientLooks {
 public:
  using Done = std::function<void(const std::string& why_not)>;  // "" = the process may connect
  explicit ClientLooks(os::Loop& loop, Duration patience = std::chrono::milliseconds(500))
      : loop_(loop), patience_(patience) {}
  ~ClientLooks();  // waits for no process: a look that has begun is left behind
  ClientLooks(const ClientLooks&) = delete;
  ClientLooks& operator=(const ClientLooks&) = delete;

  // `devices`: all devices that the process may see; empty = not known. `done` runs once, perhaps inside look().
  void look(int pid, std::vector<std::string> devices, Done done);

 private:
  struct Waiting {
    Waiting(os::Loop& loop, Done asked) : done(std::move(asked)), timer(loop) {}
    Done done;
    os::Timer timer;
    std::shared_ptr<std::atomic<bool>> awaited = std::make_shared<std::atomic<bool>>(true);
  };
  void answered(std::uint64_t id, const std::string& why_not);
  void late(std::uint64_t id, int pid);

  os::Loop& loop_;
  Duration patience_;
  std::unique_ptr<os::Worker> worker_ = os::Worker::start();  // early: a pid limit may be reached later
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_ = 1;
  LogPace pace_;
  std::uint64_t late_ = 0;  // looks that are past their deadline and still running
};

// --- heirs of clients that have exited -------------------------------------------------------------------------------

struct FirstProcess {
  std::string container;  // containers.h, container_of()
  os::ProcessRef process;
};

struct FoundHeirs {
  Heirs of;                         // of each remnant
  std::vector<FirstProcess> first;  // those of them that are the first of their container, and end all of it
};

// Finds what to end for a client that has exited and whose channels something keeps (mps/relay/relay.h): its
// server has the client, with its memory and its places, until that ends. At the first attempt these are the processes
// of the client's pod that have its channels: forks of the client, or processes that received its descriptors. If none
// is found, or the client is still there afterwards (a descriptor that lies in a socket's queue belongs to no process
// that can be found), it is the first process of the client's container; from the third attempt on, the first process
// of each container of the pod. Never a process of another pod or of the node, whatever descriptors it has. If the
// control group of the client is not kubelet's, its pod is not known, and these are processes of its container only.
//
// The clients that the kernel kills with a first process are not in the answer: client_ending.h, KilledWith.
//
// If the container of a remnant is not known, nothing is found. A container whose processes are all younger than the
// client may be a later one of the same name, because the kernel gives numbers of namespaces again: it is not ended as
// a whole. Reads all of /proc, which takes tens of milliseconds on a busy node. Any thread.
// `own`: processes that have the channels by right: servers, daemon.
FoundHeirs find_heirs(const std::vector<KnownClient>& remnants, const std::set<int>& own);

// Containers whose first process is being terminated: the kernel kills all others of the container with it. Until it
// has exited, the container has no new clients at any endpoint. Loop thread only.
class EndingContainers {
 public:
  // These are first processes, although the kernel does not show it: containers that share the pid namespace of their
  // pod or of the node. Until the next call.
  void note(std::vector<FirstProcess> first) { noted_ = std::move(first); }
  // Closes the container if the process is its first. The container; "": it is not, or it has exited.
  std::string close_with(const os::ProcessRef& process);
  // The exit of this first process ends the other process of its container: false for a process outside of the pid
  // namespace that a process of the container has created below its own.
  static bool ends(const os::ProcessRef& first, int pid);
  // Why this process may not connect; "" if its container is not closed.
  std::string refuses(int pid);

 private:
  std::vector<FirstProcess> noted_;
  std::vector<FirstProcess> closed_;
};

// How many contexts of clients the pool's server accepts on each of its devices. A grant's contexts count on the
// devices that the grant holds, because it can have none on others; if it holds several, on each, and up to its promise
// as if they were spread evenly. `promised` places are reserved for each open endpoint: clients of other grants cannot
// use them. So are those of containers that may still come, one for each slot of a device that has no endpoint, but no
// more than a quarter of the places.
struct ServerPlaces {
  std::size_t most = 0;  // 0 = no limit of ours
  std::vector<std::string> devices = {};
  std::size_t promised = 1;
  std::size_t slots = 0;  // of each device
};

class Endpoints;

struct EndpointsSettings {
  grants::Paths paths;
  DaemonHome home = {};  // of the keeper
  config::EndpointPolicy policy = config::EndpointPolicy::kRelay;
  RelaySettings relay = {};                     // without the daemon's socket
  Duration greeting = std::chrono::seconds(5);  // wait for the first greeting of a daemon
  // The longest wait for the exit of a former tenant's clients; then new clients are admitted.
  Duration former_clients = std::chrono::seconds(30);
  // The longest wait for tranche-keeper to release the grant's clients that have exited; then it may hang, and new ones
  // are admitted.
  Duration dead_clients = std::chrono::seconds(10);
  // The longest wait while another process keeps the connection of the grant's clients that have exited: five samples
  // of the guard at its default interval, after which it has asked to end what is over the limit (remains_of()).
  Duration remnants = std::chrono::milliseconds(500);
};

// What the endpoints of all pools share. It outlives them.
struct EndpointsContext {
  // on_change: the result of a describe() changed.
  EndpointsContext(os::Loop& loop, EndpointsSettings settings, std::function<void()> on_change);

  // KilledWith.
  std::optional<std::vector<os::ProcessRef>> killed_with(const std::vector<os::ProcessRef>& processes);

  os::Loop& loop;
  EndpointsSettings settings;
  std::function<void()> on_change;
  std::vector<Endpoints*> all;
  ClientLooks looks;
  Keeper keeper;
  EndingContainers ending_containers;
  std::unique_ptr<os::Worker> heirs = os::Worker::start();  // for find_heirs(). Early: a pid limit may be reached later
};

// The pool that has the endpoints.
class EndpointsPool {
 public:
  // Terminates clients: stop, wait, kill. One outcome for each client; all are stopped when it returns. `done` runs
  // once, perhaps inside the call; it does not run if the pool's daemon is removed meanwhile.
  virtual void end_clients(const std::vector<int>& clients,
                           std::function<void(const std::vector<Terminated>&)> done) = 0;
  virtual void client_gone(int pid) = 0;  // a client has exited
  virtual void server_doubted() = 0;      // RelayOwner::server_doubted()
  // Makes the daemon hold these limits for the clients that it accepts next; absent: the pool's own. `prepared` runs
  // once, perhaps inside the call.
  virtual void set_next_limits(const std::optional<GrantLimits>& limits, RelayOwner::Prepared prepared) = 0;
  // The limits that the daemon enforces for clients with these grant limits; absent: the pool's own.
  virtual Result<DaemonLimits> limits_for(const std::optional<GrantLimits>& limits) const = 0;

 protected:
  ~EndpointsPool() = default;
};

class Endpoints final : public Admission, public RelayOwner {
 public:
  // The pool's directories exist: listens at every endpoint that is on disk.
  static Result<std::unique_ptr<Endpoints>> open(EndpointsContext& context, const std::string& pool,
                                                 EndpointsPool& owner);
  ~Endpoints() override;
  Endpoints(const Endpoints&) = delete;
  Endpoints& operator=(const Endpoints&) = delete;

  // --- from the pool and its daemon ---------------------------------------------------------------------------------
  Status serve() override;
  void hold() override;
  void read_log(const LogLine& line) override;
  // Finds clients from before our start.
  void servers_listed(std::uint64_t asked, const std::vector<int>& servers, const ListedProcesses& clients) override;
  // Without a relay `go` runs at once.
  ProofTurn take_turn(std::function<void()> go) override;
  void set_places(ServerPlaces places) { places_ = std::move(places); }
  // The number of places that are taken on the pool's device that has the most. Absent: not known, because endpoints
  // are links.
  std::optional<std::size_t> clients_on_fullest() const;

  // --- requests ----------------------------------------------------------------------------------------------------
  using Reply = std::function<void(const std::string& json)>;
  // `reply` runs once, inside the call or in a later callback.
  void answer(const MpsRequest& request, Reply reply);
  // Terminates the endpoint's clients without harm to others (mps/pool/client_ending.h). With `made`, removes only the
  // endpoint with that number: kConflict if the grant has a new tenant by now.
  Status remove_endpoint(const std::string& grant, std::optional<std::uint64_t> made = std::nullopt);

  bool is_empty() const { return endpoints_.empty(); }
  std::vector<int> clients() const;  // clients that connected through its endpoints
  std::optional<std::vector<int>> relay_clients() const override;
  const std::string* grant_of(int pid) const override;
  std::vector<int> clients_in(const std::string& container) const;
  void find_heirs(const std::vector<int>& pids, std::set<int> own,
                  const std::function<void(const Heirs&)>& done) override;
  // Clients whose death can end others; clients that have exited and whose memory is still in use.
  std::size_t unprotected() const;
  std::size_t dead() const;
  // Adds "endpoint", "endpointReason" and "endpoints" to the pool of the status document.
  void describe(nlohmann::ordered_json& into) const;

 private:
  struct Endpoint {
    std::uint64_t made = 0;           // unique number of this endpoint, also across restarts
    EndpointTerms terms;              // any pod also if kubelet reassigned it while a container ran
    std::string first_pod;            // of its first client, if the terms name none
    std::string unreadable;           // why the stored limits cannot be read
    std::string not_limited;          // why its last client was not admitted
    std::string refused_why;          // the process that was refused last, and the rule that refused it
    std::uint64_t limits_lifted = 0;  // processes refused because their environment lifts their limit
    // The UID of the only pod that its clients come from; "": not known, or there may be several.
    const std::string& pod() const { return terms.pod.empty() ? first_pod : terms.pod; }
  };
  struct Seen {
    os::ProcessRef process;
    std::string grant;  // "" = none
  };
  struct Newcomer {
    std::string grant;
    MonoTime until;                  // while the keeper holds clients that have exited
    std::optional<MonoTime> judged;  // while others keep their connections; absent: the keeper holds some
    std::function<void()> go;
  };
  friend struct EndpointsContext;

  Endpoints(EndpointsContext& context, const std::string& pool, EndpointsPool& owner);
  std::string owner_name(const std::string& grant) const { return id_ + '/' + grant; }  // for the keeper
  Status open_for(const OpenEndpointRequest& request);
  void end_for(const TerminateRequest& request, Reply reply);
  Refusal refuses(const std::string& grant, int pid) override;
  void client_connects(const std::string& grant, int pid) override;
  void client_exited(int pid) override;
  void ended_badly(const std::string& grant, const Passage& passage) override;
  void not_as_client(const Error& why) override;
  void clients_changed() override;
  void server_doubted() override { owner_.server_doubted(); }
  void prepare(const std::string& grant, const Prepared& done) override;
  std::string answer(const std::string& grant, const RelayQuestion& question) override;
  void look_at(const std::string& grant, int pid, const Looked& done) override;
  std::optional<std::set<Channel>> open_pipes() override;
  void store_clients(const std::string& clients) override;
  void make_relay();
  void restore_clients();
  void on_greeting(const Result<bool>& is_known);
  Status use_links(const std::string& reason);
  Status listen(const std::string& grant);
  void listen_or_log(const std::string& grant);
  Status keep(const std::string& grant, const EndpointTerms& terms);
  Endpoint& endpoint_of(const std::string& grant);
  void stamp(Endpoint& endpoint);  // it is not the endpoint from before
  // The UID of a running container's pod that mounts the endpoint and has a client of it, by control group; "": none.
  std::string pod_with(const std::string& grant) const;
  // Closes an endpoint and terminates its clients. A descriptor that a container opened below its directory leads
  // nowhere from now on.
  Status vacate(const std::string& grant);
  void end_former_clients(const std::string& grant, const std::vector<int>& clients);
  void recall(const std::string& grant);
  void note_prepared(const std::string& grant, const Status& status);
  std::string remains_of(const std::string& grant) const;
  void look_at_environment(const std::string& grant, int pid, const ClientLooks::Done& done);
  bool keeps_memory(const std::string& grant) const { return context_.keeper.keeps_memory(owner_name(grant)); }
  void let_newcomers();
  std::size_t unknown_clients() const;
  std::size_t taken_by(const std::string& grant, const Endpoint& endpoint) const;
  std::size_t taken_on(const std::string& device, bool evenly) const;
  std::size_t kept_on(const std::string& device, const std::string& grant) const;
  std::string no_capacity(const std::string& grant) const;  // "" = one more context fits
  // Why this process would be refused because of connections that end by themselves; "" = it would not.
  std::string no_place(const std::string& grant, int pid) const;
  void log_remnants();
  void end_former_remnants();
  std::vector<int> clients_of(const std::string& grant) const;

  EndpointsContext& context_;
  const std::string id_;
  EndpointsPool& owner_;
  const std::string terms_;  // the folder with those of its grants
  bool stored_ = true;  // the last attempt to store the relay's clients succeeded; before the relay: ~Relay may store
  std::unique_ptr<Relay> relay_;  // null: endpoints are links
  std::string link_reason_;
  std::unique_ptr<Ping> probe_;
  std::map<std::string, Endpoint> endpoints_;
  ServerPlaces places_;
  bool wants_clients_ = false;
  std::map<int, Seen> seen_;           // clients that did not connect through a relay
  std::set<int> gone_;                 // listed clients of no known grant that have exited
  std::size_t gone_twice_ = 0;         // in two successive lists: the server still has them
  std::set<int> remnants_;             // that were logged
  std::set<int> servers_;              // as of the last list, and those whose log names a client since
  std::map<std::string, int> ending_;  // terminations of former clients, for which a grant's new clients wait
  std::uint64_t last_made_ = 0;
  std::vector<Newcomer> newcomers_;  // they wait for the memory of clients that have exited
  os::Timer newcomers_timer_;
  LogPace pace_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // set_next_limits() may answer after our end
};

}  // namespace tranche::mps
