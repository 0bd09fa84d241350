#pragma once
// The endpoints of all pools: the directories `<mps-root>/pools/<pool>/endpoints/<grant>` with their socket `control`.
// It is a relay's (mps/relay/relay.h). With `sharing.mps.endpoint: link`, or if the daemon's greeting is not the
// expected one, it is a hard link to the daemon's own socket, which lets tenants with root send commands to the daemon;
// the pool's status gives the reason.
//
// It also answers the requests on mps.sock (requests.h). Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/model.h"
#include "grants/allocate/grant.h"
#include "mps/endpoints/client_looks.h"
#include "mps/endpoints/ending_containers.h"
#include "mps/endpoints/endpoint_limits.h"
#include "mps/endpoints/endpoint_log.h"
#include "mps/endpoints/heirs.h"
#include "mps/keeper/keeper.h"
#include "mps/proof/prover.h"
#include "mps/protocol/replies.h"
#include "mps/protocol/requests.h"
#include "mps/relay/relay.h"
#include "os/loop/loop.h"

namespace tranche::agent {

using Terminated = std::vector<mps::Terminated>;
// Terminates clients of a pool: stop, wait, kill. One outcome for each client; all are stopped when it returns.
using Terminate = std::function<void(const std::string& pool, const std::vector<int>& clients,
                                     std::function<void(const Terminated&)> done)>;

struct EndpointsSettings {
  allocate::Paths paths;
  host::DaemonHome home = {};  // of the keeper
  config::EndpointPolicy policy = config::EndpointPolicy::kRelay;
  mps::RelayTimes times = {};
  Duration greeting = std::chrono::seconds(5);  // wait for the first greeting of a daemon
  std::size_t connections_per_grant = 512;      // further connections wait unaccepted
  std::size_t connections = 4096;               // of all grants of a pool, apart from a few for each grant
  // The longest wait for the exit of a former tenant's clients; then new clients are admitted.
  Duration former_clients = std::chrono::seconds(30);
  // The longest wait for tranche-keeper to release the grant's clients that have exited; then it may hang, and new ones
  // are admitted.
  Duration dead_clients = std::chrono::seconds(10);
};

class Endpoints {
 public:
  struct Callbacks {
    Terminate terminate;
    std::function<void(const std::string& pool, const std::string& grant, int pid)> on_client;  // a process connects
    std::function<void(const std::string& pool, int pid)> on_client_gone;  // such a process has exited
    std::function<void()> on_change;                                       // the result of describe() changed
    // host::Relay::Callbacks::on_server_doubted of a pool. Empty: a doubt starts no proof.
    std::function<void(const std::string& pool, const std::string& why)> on_server_doubted = {};
    // Makes a pool's daemon hold these limits for the clients that it accepts next; absent: the pool's own. `prepared`
    // runs once, perhaps inside the call. Empty: all clients get the limits that the daemon got at its start.
    std::function<void(const std::string& pool, const std::optional<mps::GrantLimits>& limits,
                       host::Relay::Prepared prepared)>
        set_next_limits = {};
    // The limits that the daemon enforces for clients with these grant limits; absent: the pool's own. Empty: not
    // known.
    std::function<Result<mps::DaemonLimits>(const std::string& pool, const std::optional<mps::GrantLimits>& limits)>
        limits = {};
  };
  Endpoints(host::Loop& loop, EndpointsSettings settings, Callbacks callbacks);
  ~Endpoints();
  Endpoints(const Endpoints&) = delete;
  Endpoints& operator=(const Endpoints&) = delete;

  void set_policy(config::EndpointPolicy policy);  // applies when a pool is opened next

  // --- from the pools ----------------------------------------------------------------------------------------------
  // The pool's directories exist: listens at every endpoint that is on disk.
  Status add_pool(const std::string& pool);
  void remove_pool(const std::string& pool);  // the daemon has ended and will not restart
  // The daemon serves and its limits are enforced: clients may connect.
  Status open_pool(const std::string& pool);
  // The daemon does not serve: clients wait. `clients` are those that its servers list, to find clients from before our
  // start.
  void hold_pool(const std::string& pool);
  void clients_seen(const std::string& pool, const std::vector<host::ProcessRef>& clients);
  void server_replaced(const std::string& pool);
  // From the log of a server: it accepted this process; a context of it has a place, or has none any more.
  void server_took(const std::string& pool, int server, int pid);
  void context_began(const std::string& pool, int pid, std::uint32_t context);
  void context_ended(const std::string& pool, int pid, std::uint32_t context);
  // The servers, and all pids that they list in an answer to a question of time `asked` (boot_ticks()).
  void servers_listed(const std::string& pool, std::uint64_t asked, const std::vector<int>& servers,
                      const std::vector<int>& pids);
  // Runs `go` when the pool's own CUDA start may connect (mps/relay/relay.h, take_turn), until the returned object is
  // dropped. Without a relay `go` runs at once.
  host::ProofTurn take_turn(const std::string& pool, std::function<void()> go);
  // How many contexts of clients the pool's server accepts on each of these devices; 0 = no limit of ours. A grant's
  // contexts count on the devices that the grant holds, because it can have none on others; if it holds several, on
  // each, and up to its promise as if they were spread evenly. `promised` places are reserved for each open endpoint:
  // clients of other grants cannot use them. So are those of containers that may still come, one for each of the
  // `slots` of a device that has no endpoint, but no more than a quarter of the places; 0 slots: none.
  void set_most_clients(const std::string& pool, std::size_t most, std::vector<std::string> devices,
                        std::size_t promised = 1, std::size_t slots = 0);
  // The number of places that are taken on the pool's device that has the most. Absent: not known, because endpoints
  // are links.
  std::optional<std::size_t> clients_on_fullest(const std::string& pool) const;

  // --- requests ----------------------------------------------------------------------------------------------------
  // `reply` runs once, inside the call or in a later callback.
  void answer(const std::string& request, std::function<void(const std::string& json)> reply);
  // `limits` apply to new clients, from now on and after restarts. Without `limits`, the earlier ones stay.
  Status open_endpoint(const EndpointName& endpoint, const std::optional<mps::GrantLimits>& limits = std::nullopt);
  // Terminates the endpoint's clients without harm to others (mps/pool/client_ending.h). With `made`, removes only the
  // endpoint with that number: kConflict if the grant has a new tenant by now.
  Status remove_endpoint(const EndpointName& endpoint, std::optional<std::uint64_t> made = std::nullopt);
  Status admit(const EndpointName& endpoint, bool open, const std::string& reason);

  bool has_endpoints(const std::string& pool) const;
  std::vector<int> clients(const std::string& pool) const;  // clients that connected through its endpoints
  // The same if every client comes through a relay; absent if endpoints are links, where clients are found later.
  std::optional<std::vector<int>> relay_clients(const std::string& pool) const;
  const std::string* grant_of(const std::string& pool, int pid) const;  // null: not a known client
  // For those of these pids that are clients which have exited, and which the server still has (mps/relay/relay.h,
  // EndpointView::remnants): the processes to end in their place (heirs.h). `own`: processes of the pool. `done` runs
  // once, perhaps inside the call, and never after this object is destroyed.
  void find_heirs(const std::string& pool, const std::vector<int>& pids, std::set<int> own,
                  const std::function<void(const Heirs&)>& done);
  // host::KilledWith.
  std::optional<std::vector<host::ProcessRef>> killed_with(const std::vector<host::ProcessRef>& processes);
  // Clients whose death can end others; clients that have exited and whose memory is still in use.
  std::size_t unprotected(const std::string& pool) const;
  const host::Keeper& keeper() const { return keeper_; }
  std::size_t dead(const std::string& pool) const;
  // Adds "endpoint", "endpointReason" and "endpoints" to a pool of the status document.
  void describe(const std::string& pool, nlohmann::ordered_json& into) const;

 private:
  struct Endpoint {
    std::uint64_t made = 0;  // unique number of this endpoint, also across restarts
    std::string pod;  // UID of the pod that its clients come from; "": no client has connected, or it is not known
    bool any_pod =
        false;  // several pods may connect: pods of one claim, or kubelet reassigned it while a container ran; stored
    bool admitting = true;
    std::string reason;
    std::optional<mps::GrantLimits> limits;  // absent: the pool's own
    std::string unreadable;                  // why the stored limits cannot be read
    std::string not_limited;                 // why its last client was not admitted
    std::string refused_why;                 // the process that was refused last, and the rule that refused it
    std::uint64_t limits_lifted = 0;         // processes refused because their environment lifts their limit
  };
  struct Seen {
    host::ProcessRef process;
    std::string grant;  // "" = none
  };
  struct Pool {
    std::shared_ptr<host::Relay> relay;  // null: endpoints are links
    std::string link_reason;
    std::unique_ptr<host::RelayProbe> probe;
    std::map<std::string, Endpoint> endpoints;
    std::size_t most_clients = 0;  // on each of `devices`
    std::vector<std::string> devices;
    std::size_t promised = 1;  // places reserved for each grant
    std::size_t slots = 0;     // of each device
    bool wants_clients = false;
    std::map<int, Seen> seen;  // clients that did not connect through a relay
    // Listed clients of no known grant that have exited, each with the time of the first list that shows it.
    std::map<int, std::uint64_t> gone;
    std::size_t gone_twice = 0;  // in two successive lists: the server still has them
    std::set<int> remnants;      // that were logged
    std::set<int> servers;       // as of the last list, and those whose log names a client since
  };

  struct Newcomer {
    EndpointName endpoint;
    MonoTime until;
    std::function<void()> go;
  };

  using Reply = std::function<void(const std::string& json)>;
  Status open_for(const OpenEndpointRequest& request);
  void make_relay(const std::string& id, Pool& pool);
  void restore_clients(const std::string& id, Pool& pool);
  void store_clients(const std::string& id, const std::string& clients);
  void on_greeting(const std::string& id, const Status& status);
  Status use_links(const std::string& id, const std::string& reason);
  Status listen(const std::string& id, Pool& pool, const std::string& grant);
  Status may_open(const EndpointName& endpoint, const std::optional<mps::GrantLimits>& limits);
  Status keep_limits(const EndpointName& endpoint, Pool& pool, const mps::GrantLimits& limits);
  // Undoes open_for() after an error.
  void take_back(const EndpointName& endpoint, Pool& pool, bool was_there,
                 const std::optional<mps::GrantLimits>& limits);
  Endpoint& endpoint_of(Pool& pool, const std::string& grant);
  void let_any_pod(const EndpointName& name, Endpoint& endpoint);
  Status let_pod(const EndpointName& name, Endpoint& endpoint, const std::string& uid);
  void stamp(Endpoint& endpoint);  // it is not the endpoint from before
  // The UID of a running container's pod that mounts the endpoint and has a client of it, by control group; "": none.
  std::string pod_with(const EndpointName& endpoint) const;
  // Closes an endpoint and terminates its clients. A descriptor that a container opened below its directory leads
  // nowhere from now on.
  Status vacate(const EndpointName& name, Pool& pool);
  void end_former_clients(const EndpointName& name, const std::vector<int>& clients);
  void former_clients_ended(const EndpointName& name);
  void note_pod(const std::string& id, const std::string& grant, int pid);
  void note_container(const std::string& id, int pid);
  void hold(const std::string& id, const std::string& grant, int pid);
  void recall_limits(const std::string& id, Pool& pool, const std::string& grant);
  static void set_kinds(Pool& pool);
  void prepare(const std::string& id, const std::string& grant, const host::Relay::Prepared& done);
  void set_own_limits(const std::string& id);
  std::string device_answer(const std::string& id, const std::string& grant, const mps::RelayQuestion& question) const;
  void note_prepared(const EndpointName& endpoint, const Status& status);
  std::vector<int> clients_in(const std::string& container) const;  // of all pools
  static std::string remains_of(const Pool& pool, const std::string& grant);
  std::string refuses(const std::string& id, const std::string& grant, int pid) const;
  void look_at(const std::string& id, const std::string& grant, int pid, const ClientLooks::Done& done);
  void look_at_environment(const std::string& id, const std::string& grant, int pid, const ClientLooks::Done& done);
  bool keeps_memory(const EndpointName& endpoint) const;
  void let_newcomers();
  void note_refusal(const std::string& id, const std::string& grant, const std::string& why, bool limit_lifted);
  void log_trouble(const std::string& id, const std::string& grant, const mps::Passage& passage, std::uint32_t user);
  std::string grant_of_earlier(const std::string& id, int pid, std::map<std::string, std::string>& known) const;
  static std::size_t unknown_clients(const Pool& pool);
  static std::size_t taken_by(const Pool& pool, const std::string& grant, const Endpoint& endpoint);
  static std::size_t taken_on(const Pool& pool, const std::string& device, bool evenly);
  static std::size_t kept_on(const Pool& pool, const std::string& device, const std::string& grant);
  static std::string no_capacity(const Pool& pool, const std::string& grant);  // "" = one more context fits
  // Why this process would be refused because of connections that end by themselves; "" = it would not.
  static std::string no_place(const Pool& pool, const std::string& grant, int pid);
  void log_remnants(const std::string& id, Pool& pool);
  std::optional<std::set<host::Channel>> open_pipes(const std::string& id) const;
  void end_former_remnants(const std::string& id, const Pool& pool);
  std::vector<int> clients_of(const EndpointName& endpoint) const;
  Result<Pool*> find(const std::string& id);

  host::Loop& loop_;
  EndpointsSettings settings_;
  Callbacks callbacks_;
  // Whether the last attempt to store a relay's clients succeeded. Declared before the pools: ~Relay may store.
  bool stored_ = true;
  std::map<std::string, Pool> pools_;
  std::map<EndpointName, int> ending_;  // terminations of former clients, for which new clients wait
  std::uint64_t last_made_ = 0;
  EndpointLog log_;
  ClientLooks looks_;
  host::Keeper keeper_;
  std::vector<Newcomer> newcomers_;  // they wait for the release of clients that have exited
  host::Timer newcomers_timer_{loop_};
  HeirSearch heirs_;
  EndingContainers ending_containers_;
  LogPace remnants_pace_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // set_next_limits() may answer after our end
};

}  // namespace tranche::agent
