#include "mps/endpoints/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mps/endpoints/containers.h"
#include "mps/pool/pool_dirs.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr const char* kAskedForLinks = "the configuration asks for it (sharing.mps.endpoint: link)";
constexpr const char* kTenantsCommand = "; tenants with root can command this daemon";

nlohmann::ordered_json limits_of(const std::optional<mps::GrantLimits>& limits) {
  if (!limits) return nullptr;  // the pool's own
  return limits_json(*limits);
}

}  // namespace

Endpoints::Endpoints(host::Loop& loop, EndpointsSettings settings, Callbacks callbacks)
    : loop_(loop),
      settings_(std::move(settings)),
      callbacks_(std::move(callbacks)),
      looks_(loop),
      keeper_(loop, {.mps_root = settings_.paths.mps_root, .home = settings_.home},
              [this] {
                let_newcomers();
                callbacks_.on_change();
              }),
      heirs_(loop),
      ending_containers_(loop) {}

Endpoints::~Endpoints() = default;

void Endpoints::set_policy(config::EndpointPolicy policy) {
  settings_.policy = policy;
}

Status Endpoints::add_pool(const std::string& id) {
  if (pools_.contains(id)) return {};
  auto directory = host::Dir::create(settings_.paths.endpoints(id), 0755);
  if (!directory)
    return std::unexpected(within(std::move(directory).error(), "cannot make the directory of endpoints"));
  TRY(const auto names, directory->list());
  Pool& pool = pools_[id];
  if (settings_.policy == config::EndpointPolicy::kRelay) {
    make_relay(id, pool);
  } else {
    pool.link_reason = kAskedForLinks;
  }
  if (const auto swept = sweep_endpoint_limits(settings_.paths, id, names); !swept)
    log::warning("endpoint.limits_left", {{"pool", id}, {"why", swept.error()}});
  for (const auto& grant : names) {
    if (!is_grant_name(grant)) continue;
    recall_limits(id, pool, grant);
    if (const auto listening = listen(id, pool, grant); !listening)
      log::warning("endpoint.closed", {{"pool", id}, {"grant", grant}, {"why", listening.error()}});
  }
  return {};
}

void Endpoints::make_relay(const std::string& id, Pool& pool) {
  std::function<void(const std::string&, host::Relay::Prepared)> prepare_one;
  if (callbacks_.set_next_limits) {
    prepare_one = [this, id](const std::string& grant, const host::Relay::Prepared& done) { prepare(id, grant, done); };
  }
  pool.relay = host::Relay::open(
      loop_,
      {.daemon_socket = settings_.paths.pipe(id) + "/control",
       .times = settings_.times,
       .connections_per_grant = settings_.connections_per_grant,
       .connections = settings_.connections},
      {.refuse =
           [this, id](const std::string& grant, int pid) {
             auto why = refuses(id, grant, pid);
             if (!why.empty()) note_refusal(id, grant, why, false);
             return why;
           },
       .refuses_for_now = [this, id](const std::string& grant,
                                     int pid) { return !no_place(pools_.at(id), grant, pid).empty(); },
       .on_client =
           [this, id](const std::string& grant, int pid) {
             note_pod(id, grant, pid);
             note_container(id, pid);
             hold(id, grant, pid);
             if (callbacks_.on_client) callbacks_.on_client(id, grant, pid);
           },
       .on_gone =
           [this, id](const std::string&, int pid) {
             if (const auto found = pools_.find(id); found != pools_.end() && found->second.relay)
               keeper_.exited(pid, found->second.relay->contexts(pid) > 0);
             if (callbacks_.on_client_gone) callbacks_.on_client_gone(id, pid);
           },
       .on_trouble = [this, id](const std::string& grant, const mps::Passage& passage,
                                std::uint32_t user) { log_trouble(id, grant, passage, user); },
       .on_not_itself =
           [id](const Error& error) {
             log::warning("endpoint.own_name",
                          {{"pool", id},
                           {"why", error},
                           {"effect", "the daemon's log names tranche mps instead of its clients"},
                           {"instead", "run tranche mps as root with SYS_ADMIN, SETUID and hostPID"}});
           },
       .on_change = callbacks_.on_change,
       .on_server_doubted =
           [this, id](const std::string& why) {
             if (callbacks_.on_server_doubted) callbacks_.on_server_doubted(id, why);
           },
       .prepare = std::move(prepare_one),
       .answer = [this, id](const std::string& grant,
                            const mps::RelayQuestion& asked) { return device_answer(id, grant, asked); },
       .look = [this, id](const std::string& grant, int pid,
                          const ClientLooks::Done& done) { look_at(id, grant, pid, done); },
       .open_pipes = [this, id] { return open_pipes(id); },
       .store = [this, id](const std::string& clients) { store_clients(id, clients); }});
  set_kinds(pool);
  restore_clients(id, pool);
}

void Endpoints::remove_pool(const std::string& pool) {
  pools_.erase(pool);
  std::erase_if(ending_, [&](const auto& entry) { return entry.first.pool == pool; });
}

Result<Endpoints::Pool*> Endpoints::find(const std::string& id) {
  const auto found = pools_.find(id);
  if (found == pools_.end())
    return fail(Kind::kNotFound, "tranche mps does not serve this pool (yet): it may run with another configuration",
                id);
  return &found->second;
}

Status Endpoints::listen(const std::string& id, Pool& pool, const std::string& grant) {
  auto made = host::Dir::open(settings_.paths.endpoints(id));
  if (!made) return std::unexpected(within(std::move(made).error(), "the MPS pool has no directory of endpoints"));
  auto directory = made->make_subdir(grant, 0755);
  if (!directory) return std::unexpected(within(std::move(directory).error(), "cannot make the grant's endpoint"));
  (void)endpoint_of(pool, grant);
  if (pool.relay) {
    set_kinds(pool);
    TRY_STATUS(pool.relay->open_endpoint(grant, *directory));
    pool.relay->keep_waiting(grant, ending_.contains({id, grant}));
    return {};
  }
  const auto linked = directory->hard_link(settings_.paths.pipe(id) + "/control", "control");
  // Without a daemon there is nothing to link; its start creates the link.
  if (!linked && linked.error().kind != Kind::kNotFound)
    return std::unexpected(within(linked.error(), "cannot put the pool's control socket into the grant's endpoint"));
  return {};
}

Status Endpoints::open_pool(const std::string& id) {
  TRY_STATUS(add_pool(id));
  Pool& pool = pools_.at(id);
  pool.wants_clients = true;
  if (settings_.policy == config::EndpointPolicy::kLink) return use_links(id, kAskedForLinks);
  // Each start may use a different driver: its greeting is checked before clients are connected to it.
  pool.probe = host::probe_daemon(loop_, settings_.paths.pipe(id) + "/control", settings_.greeting,
                                  [this, id](const Status& status) { on_greeting(id, status); });
  return {};
}

void Endpoints::on_greeting(const std::string& id, const Status& status) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  Pool& pool = found->second;
  if (!status && status.error().kind == Kind::kUnsupported) {
    if (const auto linked = use_links(id, to_string(status.error())); !linked)
      log::error("endpoints.not_linked", {{"pool", id}, {"why", linked.error()}});
    return;
  }
  // The pool notices a daemon that does not answer; meanwhile clients wait at the relay.
  if (!status) log::warning("endpoints.unanswered", {{"pool", id}, {"why", status.error()}});
  if (!pool.relay) {
    make_relay(id, pool);
    pool.link_reason.clear();
    for (const auto& [grant, endpoint] : pool.endpoints) {
      if (const auto listening = listen(id, pool, grant); !listening)
        log::warning("endpoint.closed", {{"pool", id}, {"grant", grant}, {"why", listening.error()}});
    }
  }
  if (pool.wants_clients) pool.relay->serve();
  callbacks_.on_change();
}

Status Endpoints::use_links(const std::string& id, const std::string& reason) {
  Pool& pool = pools_.at(id);
  pool.relay.reset();
  store_clients(id, "");
  if (pool.link_reason != reason)
    log::warning("endpoints.linked", {{"pool", id}, {"why", reason}, {"effect", kTenantsCommand + 2}});
  pool.link_reason = reason;
  TRY(const auto dirs, host::PoolDirs::make(settings_.paths, id));
  const auto linked = dirs.relink_endpoints();
  set_own_limits(id);
  callbacks_.on_change();
  return linked;
}

void Endpoints::hold_pool(const std::string& id) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second.wants_clients = false;
  found->second.probe.reset();
  if (found->second.relay) found->second.relay->hold();
}

// A client may have no mounts of its container any more (chroot), so its container's first process counts as well. That
// one is searched for once per container, because the search reads all of /proc.
std::string Endpoints::grant_of_earlier(const std::string& id, int pid,
                                        std::map<std::string, std::string>& known) const {
  if (auto grant = grant_by_mounts(pid, settings_.paths.mps_root, id)) return *std::move(grant);
  const auto container = container_of(pid);
  if (container.empty()) return {};
  const auto [found, fresh] = known.try_emplace(container);
  if (const auto first = fresh ? oldest_of(container, pid) : std::nullopt)
    found->second = grant_by_mounts(first->pid, settings_.paths.mps_root, id).value_or(std::string());
  return found->second;
}

void Endpoints::clients_seen(const std::string& id, const std::vector<host::ProcessRef>& clients) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  Pool& pool = found->second;
  std::map<int, Seen> seen;
  std::map<std::string, std::string> of_containers;
  for (const auto& client : clients) {
    const int pid = client.pid;
    if (pool.relay && pool.relay->grant_of(pid) != nullptr) continue;
    const auto known = pool.seen.find(pid);
    const bool same = known != pool.seen.end() && known->second.process == client;
    auto grant = same ? known->second.grant : grant_of_earlier(id, pid, of_containers);
    if (pool.relay && !grant.empty()) {
      pool.relay->remember(grant, pid);
      note_container(id, pid);
      note_pod(id, grant, pid);
      hold(id, grant, pid);
    } else {
      seen.emplace(pid, Seen{client, std::move(grant)});
    }
  }
  pool.seen = std::move(seen);
}

void Endpoints::server_took(const std::string& id, int server, int pid) {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.relay) return;
  found->second.servers.insert(server);
  keeper_.look(pid);
}

void Endpoints::hold(const std::string& id, const std::string& grant, int pid) {
  keeper_.hold(pid, id + '/' + grant);
}

std::size_t Endpoints::unprotected(const std::string& id) const {
  const auto pids = clients(id);
  return static_cast<std::size_t>(
      std::ranges::count_if(pids, [this](int pid) { return keeper_.of(pid).state != host::Protection::State::kYes; }));
}

std::size_t Endpoints::dead(const std::string& id) const {
  const auto found = pools_.find(id);
  std::size_t count = 0;
  if (found != pools_.end())
    for (const auto& [grant, endpoint] : found->second.endpoints) count += keeper_.dead(id + '/' + grant).size();
  return count;
}

void Endpoints::server_replaced(const std::string& id) {
  const auto found = pools_.find(id);
  if (found != pools_.end() && found->second.relay) found->second.relay->new_server();
}

// The first context of a client has the place that was kept for it when the process connected.
std::string Endpoints::no_place(const Pool& pool, const std::string& grant, int pid) {
  const auto* known = pool.relay->grant_of(pid);
  const bool needs_one = known == nullptr || (!known->empty() && pool.relay->beyond_first(pid) > 0);
  auto why = needs_one ? no_capacity(pool, grant) : std::string();
  return why.empty() && known == nullptr ? remains_of(pool, grant) : why;
}

std::string Endpoints::refuses(const std::string& id, const std::string& grant, int pid) const {
  const auto& pool = pools_.at(id);
  if (const auto endpoint = pool.endpoints.find(grant); endpoint != pool.endpoints.end() && !endpoint->second.admitting)
    return endpoint->second.reason.empty() ? "closed" : endpoint->second.reason;
  const auto* known = pool.relay->grant_of(pid);
  if (known == nullptr && (pool.relay->remnant(pid) || pool.gone.contains(pid)))
    return "the MPS server still has a client with this process id, which has exited; start the program again";
  // A client's places count for the share through whose endpoint it connected first.
  if (known != nullptr && !known->empty() && *known != grant)
    return "it is a client of another share, and a process can use only one share; start one process for each share";
  if (auto full = no_place(pool, grant, pid); !full.empty()) return full;
  if (known != nullptr && known->empty()) {
    return "it is a client of the share's former tenant, whose clients are being ended";
  }
  if (known == nullptr) {
    const auto pod = pod_of(pid);
    if (!pod) return "the process cannot be identified: it has exited, or its threads end while they are read";
    const auto endpoint = pool.endpoints.find(grant);
    if (endpoint != pool.endpoints.end() && !endpoint->second.pod.empty() && !pod->empty() &&
        *pod != endpoint->second.pod)
      return fmt::format("it runs in the pod {}, and the share belongs to the pod {}", *pod, endpoint->second.pod);
  }
  return ending_containers_.refuses(pid);
}

std::vector<int> Endpoints::clients_of(const EndpointName& endpoint) const {
  const auto found = pools_.find(endpoint.pool);
  if (found == pools_.end()) return {};
  if (found->second.relay) return found->second.relay->endpoint(endpoint.grant).clients;
  std::vector<int> pids;
  for (const auto& [pid, client] : found->second.seen) {
    if (client.grant == endpoint.grant) pids.push_back(pid);
  }
  return pids;
}

std::string Endpoints::pod_with(const EndpointName& endpoint) const {
  for (const int pid : clients_of(endpoint)) {
    auto pod = pod_of(pid).value_or(std::string());
    if (!pod.empty() && grant_by_mounts(pid, settings_.paths.mps_root, endpoint.pool) == endpoint.grant) return pod;
  }
  return {};
}

bool Endpoints::has_endpoints(const std::string& id) const {
  const auto found = pools_.find(id);
  return found != pools_.end() && !found->second.endpoints.empty();
}

std::vector<int> Endpoints::clients(const std::string& id) const {
  std::vector<int> pids;
  const auto found = pools_.find(id);
  if (found == pools_.end()) return pids;
  for (const auto& [grant, endpoint] : found->second.endpoints) {
    const auto some = clients_of({id, grant});
    pids.insert(pids.end(), some.begin(), some.end());
  }
  return pids;
}

std::optional<std::vector<int>> Endpoints::relay_clients(const std::string& id) const {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.relay) return std::nullopt;
  return clients(id);
}

const std::string* Endpoints::grant_of(const std::string& id, int pid) const {
  const auto found = pools_.find(id);
  return found == pools_.end() || !found->second.relay ? nullptr : found->second.relay->grant_of(pid);
}

Status Endpoints::open_endpoint(const EndpointName& endpoint, const std::optional<mps::GrantLimits>& limits) {
  TRY_STATUS(may_open(endpoint, limits));
  return listen(endpoint.pool, pools_.at(endpoint.pool), endpoint.grant);
}

Status Endpoints::may_open(const EndpointName& endpoint, const std::optional<mps::GrantLimits>& limits) {
  TRY(Pool * pool, find(endpoint.pool));
  if (!pool->relay && !pool->wants_clients)
    return fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", endpoint.pool);
  if (limits) return keep_limits(endpoint, *pool, *limits);
  (void)endpoint_of(*pool, endpoint.grant);
  return {};
}

Endpoints::Endpoint& Endpoints::endpoint_of(Pool& pool, const std::string& grant) {
  Endpoint& endpoint = pool.endpoints[grant];
  if (endpoint.made == 0) stamp(endpoint);
  return endpoint;
}

void Endpoints::stamp(Endpoint& endpoint) {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(loop_.now().time_since_epoch()).count();
  endpoint.made = last_made_ = std::max(last_made_ + 1, static_cast<std::uint64_t>(now));
}

Status Endpoints::vacate(const EndpointName& name, Pool& pool) {
  auto clients = clients_of(name);
  if (pool.relay) {
    const auto remnants = pool.relay->endpoint(name.grant).remnants;
    clients.insert(clients.end(), remnants.begin(), remnants.end());
    pool.relay->close_endpoint(name.grant);
  }
  if (!clients.empty()) end_former_clients(name, clients);
  if (pool.relay) pool.relay->disown(name.grant);
  for (auto& [pid, client] : pool.seen)
    if (client.grant == name.grant) client.grant.clear();
  pool.endpoints.erase(name.grant);
  log_.forget(name.grant);
  TRY_STATUS(keep_for_any_pod(settings_.paths, name, false));
  TRY_STATUS(keep_pod(settings_.paths, name, {}));
  TRY(const auto directory, host::Dir::open(settings_.paths.endpoints(name.pool)));
  return directory.remove_tree(name.grant);
}

void Endpoints::end_former_clients(const EndpointName& name, const std::vector<int>& clients) {
  log::warning("endpoint.former_clients", {{"pool", name.pool},
                                           {"grant", name.grant},
                                           {"clients", clients.size()},
                                           {"why", "their pod does not hold the share any more"},
                                           {"effect", "they are stopped, waited for and killed"}});
  ++ending_[name];
  const auto once = std::make_shared<bool>(false);
  const auto ended = [this, name, once, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && !std::exchange(*once, true)) former_clients_ended(name);
  };
  loop_.after(settings_.former_clients, ended);  // terminate() does not answer if the pool is removed meanwhile
  callbacks_.terminate(name.pool, clients, [name, ended](const Terminated& outcomes) {
    for (const auto& each : outcomes)
      if (each.outcome == mps::TerminateOutcome::kRefused || each.outcome == mps::TerminateOutcome::kTimedOut)
        log::warning("endpoint.former_client_left",
                     {{"pool", name.pool}, {"grant", name.grant}, {"pid", each.pid}, {"why", each.note}});
    ended();
  });
}

void Endpoints::former_clients_ended(const EndpointName& name) {
  const auto found = ending_.find(name);
  if (found == ending_.end() || --found->second > 0) return;
  ending_.erase(found);
  const auto pool = pools_.find(name.pool);
  if (pool != pools_.end() && pool->second.relay) pool->second.relay->keep_waiting(name.grant, false);
}

// The directory is mounted into one container only, so the first pod that connects is the one that kubelet gave it to.
// A process of a different pod got a descriptor from it.
void Endpoints::note_pod(const std::string& id, const std::string& grant, int pid) {
  const auto pool = pools_.find(id);
  if (pool == pools_.end()) return;
  const auto endpoint = pool->second.endpoints.find(grant);
  if (endpoint != pool->second.endpoints.end() && endpoint->second.pod.empty() && !endpoint->second.any_pod)
    endpoint->second.pod = pod_of(pid).value_or(std::string());
}

Status Endpoints::remove_endpoint(const EndpointName& endpoint, std::optional<std::uint64_t> made) {
  TRY(Pool * pool, find(endpoint.pool));
  if (const auto there = pool->endpoints.find(endpoint.grant);
      made && there != pool->endpoints.end() && there->second.made != *made)
    return fail(Kind::kConflict, "the grant's endpoint has been replaced: it has a new tenant", endpoint.grant);
  TRY_STATUS(vacate(endpoint, *pool));
  TRY_STATUS(remove_endpoint_limits(settings_.paths, endpoint));
  log::info("endpoint.removed", {{"pool", endpoint.pool}, {"grant", endpoint.grant}});
  callbacks_.on_change();
  return {};
}

Status Endpoints::admit(const EndpointName& endpoint, bool open, const std::string& reason) {
  TRY(Pool * pool, find(endpoint.pool));
  if (!pool->relay)
    return fail(Kind::kUnsupported, "endpoints of this pool are links, which cannot be closed: " + pool->link_reason,
                endpoint.pool);
  const auto found = pool->endpoints.find(endpoint.grant);
  if (found == pool->endpoints.end()) return fail(Kind::kNotFound, "there is no such endpoint", endpoint.grant);
  if (found->second.admitting != open || found->second.reason != reason)
    log::info("endpoint.admits", {{"pool", endpoint.pool}, {"grant", endpoint.grant}, {"open", open}, {"why", reason}});
  found->second.admitting = open;
  found->second.reason = open ? std::string() : reason;
  callbacks_.on_change();
  return {};
}

void Endpoints::describe(const std::string& id, nlohmann::ordered_json& into) const {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  const Pool& pool = found->second;
  into["endpoint"] = pool.relay ? "relay" : "link";
  into["endpointReason"] = pool.relay ? std::string() : pool.link_reason + kTenantsCommand;
  if (!pool.relay && into.contains("notEnforced"))
    into["notEnforced"].push_back("the limits of a grant are set in its container's environment only");
  auto list = nlohmann::ordered_json::array();
  for (const auto& [grant, endpoint] : pool.endpoints) {
    const auto view = pool.relay ? pool.relay->endpoint(grant) : host::EndpointView{};
    auto protections = nlohmann::ordered_json::array();
    for (const int pid : view.clients) {
      const auto protection = keeper_.of(pid);
      protections.push_back({{"pid", pid}, {"protected", to_string(protection.state)}, {"why", protection.why}});
    }
    list.push_back({{"grant", grant},
                    {"made", endpoint.made},
                    {"pod", endpoint.pod},
                    {"anyPod", endpoint.any_pod},
                    {"clients", view.clients},
                    {"protection", std::move(protections)},
                    {"dead", keeper_.dead(id + '/' + grant)},
                    {"remnants", view.remnants},
                    {"places", view.places},
                    {"admitting", endpoint.admitting},
                    {"reason", endpoint.admitting ? endpoint.not_limited : endpoint.reason},
                    {"limits", limits_of(endpoint.limits)},
                    {"attempts", view.counters.attempts},
                    {"refused", view.counters.refused},
                    {"refusedWhy", endpoint.refused_why},
                    {"limitsLifted", endpoint.limits_lifted},
                    {"completed", view.counters.completed},
                    {"failed", view.counters.failed}});
  }
  into["endpoints"] = std::move(list);
}

}  // namespace tranche::agent
