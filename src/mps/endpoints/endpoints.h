#pragma once
// The endpoints of all pools: `<mps-root>/pools/<pool>/doors/<grant>/{control,drain}`, their directories and sockets. A
// endpoint is ours (mps/relay/relay.h) or, with `sharing.mps.door: link` and behind a daemon whose greeting we do not
// know, a hard link to the daemon's own socket, which lets tenants with root command it; why is said in the pool's
// status.
//
// It also answers the requests of mps.sock (requests.h). Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/model.h"
#include "grants/allocate/grant.h"
#include "mps/endpoints/client_looks.h"
#include "mps/endpoints/draining.h"
#include "mps/endpoints/endpoint_limits.h"
#include "mps/endpoints/endpoint_log.h"
#include "mps/proof/prover.h"
#include "mps/protocol/requests.h"
#include "mps/relay/drain_socket.h"
#include "mps/relay/relay.h"
#include "os/loop/loop.h"

namespace tranche::agent {

struct EndpointsSettings {
  allocate::Paths paths;
  config::EndpointPolicy policy = config::EndpointPolicy::kRelay;
  mps::RelayTimes times = {};
  Duration greeting = std::chrono::seconds(5);  // the first look at a daemon
  std::size_t connections_per_grant = 512;      // more wait unaccepted
  std::size_t connections = 4096;               // of all grants of a pool, but for a few of each
  // The longest wait for a former tenant's clients to end; then new clients are admitted.
  Duration former_clients = std::chrono::seconds(30);
};

class Endpoints {
 public:
  struct World {
    Terminate terminate;
    std::function<void(const std::string& pool, const std::string& grant, int pid)> on_client;  // a process comes in
    std::function<void(const std::string& pool, int pid)> on_client_gone;  // that came in, and has ended
    std::function<void()> on_change;                                       // what document() gives changed
    // host::Relay::Callbacks::on_server_doubted of a pool. Empty: no CUDA start is tried then.
    std::function<void(const std::string& pool, const std::string& why)> on_server_doubted = {};
    // Has a pool's daemon hold these limits for whom it takes next; absent: the pool's own. `told` comes once, perhaps
    // at once. Empty: all clients get what the daemon was told at its start.
    std::function<void(const std::string& pool, const std::optional<mps::GrantLimits>& limits,
                       host::Relay::Prepared told)>
        tell_next = {};
    // What clients of a pool are limited to who are worth this; absent: the pool's own. Empty: not known.
    std::function<Result<mps::DaemonLimits>(const std::string& pool, const std::optional<mps::GrantLimits>& limits)>
        limits = {};
    // Has a pool's daemon hold what its endpoints need besides (tier v3: a namespace for each); `done` comes once it
    // does, perhaps at once. Empty: they need nothing.
    std::function<void(const std::string& pool, std::function<void(const Status&)> done)> provide = {};
  };
  Endpoints(host::Loop& loop, EndpointsSettings settings, World world);
  ~Endpoints();
  Endpoints(const Endpoints&) = delete;
  Endpoints& operator=(const Endpoints&) = delete;

  void set_policy(config::EndpointPolicy policy);  // for the pools' next openings

  // --- from the pools ----------------------------------------------------------------------------------------------
  // Its directories are there: listens at every endpoint of before.
  Status add_pool(const std::string& pool);
  void remove_pool(const std::string& pool);  // its daemon is gone for good
  // The pool's next daemon is of tier v3 and has its grants' namespaces below this server: clients go to those. "": it
  // has one socket for all.
  void use_namespaces(const std::string& pool, const std::string& server);
  // The daemon serves, its limits are in force: clients may come in.
  Status open_pool(const std::string& pool);
  // It does not serve: clients wait. `clients` of its servers, for those from before our start.
  void hold_pool(const std::string& pool);
  void clients_seen(const std::string& pool, const std::vector<host::ProcessRef>& clients);
  void server_replaced(const std::string& pool);
  void server_took(const std::string& pool, int pid);  // as its log says
  // For a CUDA start of the pool's own (mps/relay/relay.h, take_turn), until what is returned is dropped. Without a
  // relay there are no turns: `go` comes at once.
  host::ProofTurn take_turn(const std::string& pool, std::function<void()> go);
  // How many clients the pool's server takes on each of these devices; 0 = no ceiling of ours. A grant's client counts
  // on the devices that the grant holds, for it can have no context on another. Of the places, as many as `promised`
  // are kept for each open endpoint: no other grant's clients take them.
  void set_most_clients(const std::string& pool, std::size_t most, std::vector<std::string> devices,
                        std::size_t promised = 1);
  // On the device of the pool that has the most. Absent: not known, for endpoints are links.
  std::optional<std::size_t> clients_on_fullest(const std::string& pool) const;

  // --- requests ----------------------------------------------------------------------------------------------------
  // reply comes once, at once or in a later turn.
  void answer(const std::string& request, std::function<void(const std::string& json)> reply);
  // With `limits`, clients to come are worth that, from now on and after restarts; without, what was said before.
  Status open_endpoint(const EndpointName& endpoint, const std::optional<mps::GrantLimits>& limits = std::nullopt);
  // Its clients are ended without harm to others (mps/pool/client_ending.h). With `made`, only the endpoint of that
  // number: kConflict when the grant has a new tenant by now.
  Status remove_endpoint(const EndpointName& endpoint, std::optional<std::uint64_t> made = std::nullopt);
  Status admit(const EndpointName& endpoint, bool open, const std::string& reason);

  bool has_endpoints(const std::string& pool) const;
  std::vector<int> clients(
      const std::string& pool) const;  // that are in by its endpoints, known before any look at servers
  // The same where every client comes through a relay; absent where endpoints are links and clients are seen later.
  std::optional<std::vector<int>> relay_clients(const std::string& pool) const;
  // What the grants of a pool with namespaces are worth. Those of which nothing was said are worth `own` from here on,
  // for a namespace that has clients cannot be told otherwise. Without grants whose limits cannot be read.
  std::map<std::string, mps::GrantLimits> worth(const std::string& pool, const mps::GrantLimits& own);
  const std::string* grant_of(const std::string& pool, int pid) const;  // null: not a client that we know
  // Adds "door", "doorReason" and "doors" to a pool of the status document.
  void describe(const std::string& pool, nlohmann::ordered_json& into) const;

 private:
  struct Endpoint {
    std::uint64_t made = 0;  // no two endpoints have the same, also after a restart
    std::string pod;         // uid of the pod that its clients come from; "": none has come, or it is not known
    bool any_pod =
        false;  // several pods may come in: of one claim, or kubelet gave it away while a container ran; kept
    bool admitting = true;
    std::string reason;
    std::optional<mps::GrantLimits> limits;  // absent: the pool's own
    std::string unreadable;                  // why what was told before is not known
    std::string not_limited;                 // why its last client was not let in
    std::string refused_why;                 // the last process that was refused, and by which rule
    std::uint64_t limits_lifted = 0;         // processes refused because their environment lifts their limit
    std::unique_ptr<host::DrainSocket> drain;
  };
  struct Seen {
    host::ProcessRef process;
    std::string grant;  // "" = none
  };
  struct Pool {
    std::shared_ptr<host::Relay> relay;  // null: endpoints are links
    std::string link_reason;
    std::string server;  // use_namespaces()
    std::unique_ptr<host::RelayProbe> probe;
    std::map<std::string, Endpoint> endpoints;
    std::size_t most_clients = 0;  // on each of
    std::vector<std::string> devices;
    std::size_t promised = 1;  // clients to each grant
    bool wants_clients = false;
    std::map<int, Seen> seen;  // clients that did not come through a relay
  };

  using Reply = std::function<void(const std::string& json)>;
  void answer_open(const OpenEndpointRequest& request, Reply reply);
  void provide(const std::string& pool, std::function<void(const Status&)> done);
  void make_relay(const std::string& id, Pool& pool);
  std::string socket_of(const std::string& id, const std::string& grant) const;  // the daemon's, for this grant
  void on_greeting(const std::string& id, const Status& status);
  Status use_links(const std::string& id, const std::string& reason);
  Status listen(const std::string& id, Pool& pool, const std::string& grant);
  Status may_open(const EndpointName& endpoint, const std::optional<mps::GrantLimits>& limits);
  Status keep_limits(const EndpointName& endpoint, Pool& pool, const mps::GrantLimits& limits);
  // As it was before somebody opened it in vain.
  void take_back(const EndpointName& endpoint, bool was_there, const std::optional<mps::GrantLimits>& limits);
  Endpoint& endpoint_of(Pool& pool, const std::string& grant);
  void let_any_pod(const EndpointName& name, Endpoint& endpoint);
  Status let_pod(const EndpointName& name, Endpoint& endpoint, const std::string& uid);
  void stamp(Endpoint& endpoint);  // it is not the endpoint from before
  // The pod of a running container that has the endpoint mounted and a client at it, by the control groups; "": none.
  std::string pod_with(const EndpointName& endpoint) const;
  // Closes an endpoint: what was opened by way of its directory leads nowhere from now on. Ends its clients.
  Status vacate(const EndpointName& name, Pool& pool);
  void end_former_clients(const EndpointName& name, const std::vector<int>& clients);
  void former_clients_ended(const EndpointName& name);
  void note_pod(const std::string& id, const std::string& grant, int pid);
  void recall_limits(const std::string& id, Pool& pool, const std::string& grant);
  static void set_kinds(Pool& pool);
  void prepare(const std::string& id, const std::string& grant, const host::Relay::Prepared& done);
  void tell_own_limits(const std::string& id);
  std::string told_of_itself(const std::string& id, const std::string& grant, const mps::RelayQuestion& question) const;
  void note_prepared(const EndpointName& endpoint, const Status& status);
  std::string refuses(const std::string& id, const std::string& grant, int pid) const;
  void look_at(const std::string& id, const std::string& grant, int pid, const ClientLooks::Done& done);
  void note_refusal(const std::string& id, const std::string& grant, const std::string& why, bool limit_lifted);
  void tell_trouble(const std::string& id, const std::string& grant, const mps::Passage& passage, std::uint32_t user);
  static std::size_t clients_on(const Pool& pool, const std::string& device);
  static std::size_t kept_on(const Pool& pool, const std::string& device, const std::string& grant);
  static std::string no_room(const Pool& pool, const std::string& grant);  // "" = there is room for one more
  std::vector<int> clients_of(const EndpointName& endpoint) const;
  Result<Pool*> find(const std::string& id);

  host::Loop& loop_;
  EndpointsSettings settings_;
  World world_;
  std::map<std::string, Pool> pools_;
  std::map<EndpointName, int> ending_;  // endings of former clients, which newcomers wait for
  std::uint64_t last_made_ = 0;
  Draining draining_;
  EndpointLog log_;
  ClientLooks looks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // tell_next() may answer after our end
};

}  // namespace tranche::agent
