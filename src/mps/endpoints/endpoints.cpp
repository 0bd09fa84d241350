#include "mps/endpoints/endpoints.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mps/endpoints/containers.h"
#include "mps/pool/pool_dirs.h"
#include "os/files/files.h"
#include "os/log/log.h"
#include "termination/live/survival.h"

namespace tranche::agent {
namespace {

constexpr const char* kAskedForLinks = "the configuration asks for it (sharing.mps.door: link)";
constexpr const char* kTenantsCommand = "; tenants with root can command this daemon";

nlohmann::ordered_json limits_json(const std::optional<mps::GrantLimits>& limits) {
  if (!limits) return nullptr;  // the pool's own
  auto list = nlohmann::ordered_json::array();
  for (const auto& limit : *limits) {
    list.push_back(
        {{"uuid", limit.uuid}, {"memoryMiB", limit.memory.in_mib()}, {"threadsHundredths", limit.threads.hundredths}});
  }
  return list;
}

}  // namespace

Doors::Doors(host::Loop& loop, DoorsSettings settings, World world)
    : loop_(loop),
      settings_(std::move(settings)),
      world_(std::move(world)),
      draining_(loop, {.clients = [this](const DoorName& door) { return clients_of(door); },
                       .neighbours =
                           [this](const DoorName& door) { return clients(door.pool).size() - clients_of(door).size(); },
                       .terminate = world_.terminate,
                       .on_change = world_.on_change,
                       .fates = [](const std::vector<int>& clients,
                                   int stop_signal) { return host::client_fates(clients, stop_signal); },
                       .ancestors =
                           [](const std::vector<int>& clients) {
                             host::Ancestors ancestors;
                             std::vector<std::optional<std::vector<int>>> all;
                             for (const int client : clients) all.push_back(ancestors.of(client));
                             return all;
                           }}),
      looks_(loop) {}

Doors::~Doors() = default;

void Doors::set_policy(config::DoorPolicy policy) {
  settings_.policy = policy;
}

Status Doors::add_pool(const std::string& id) {
  if (pools_.contains(id)) return {};
  auto directory = host::Dir::create(settings_.paths.doors(id), 0755);
  if (!directory) return std::unexpected(within(std::move(directory).error(), "cannot make the directory of doors"));
  TRY(const auto names, directory->list());
  Pool& pool = pools_[id];
  if (settings_.policy == config::DoorPolicy::kGate) {
    make_gate(id, pool);
  } else {
    pool.link_reason = kAskedForLinks;
  }
  if (const auto swept = sweep_door_limits(settings_.paths, id, names); !swept)
    log::warning("door.limits_left", {{"pool", id}, {"why", swept.error()}});
  for (const auto& grant : names) {
    if (!is_grant_name(grant)) continue;
    recall_limits(id, pool, grant);
    if (const auto listening = listen(id, pool, grant); !listening)
      log::warning("door.closed", {{"pool", id}, {"grant", grant}, {"why", listening.error()}});
  }
  return {};
}

void Doors::make_gate(const std::string& id, Pool& pool) {
  std::function<void(const std::string&, host::Gate::Prepared)> prepare_one;
  if (world_.tell_next) {
    prepare_one = [this, id](const std::string& grant, const host::Gate::Prepared& done) { prepare(id, grant, done); };
  }
  pool.gate = host::Gate::open(
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
       .on_client =
           [this, id](const std::string& grant, int pid) {
             note_pod(id, grant, pid);
             if (world_.on_client) world_.on_client(id, grant, pid);
           },
       .on_gone =
           [this, id](const std::string&, int pid) {
             if (world_.on_client_gone) world_.on_client_gone(id, pid);
           },
       .on_trouble = [this, id](const std::string& grant, const mps::Passage& passage,
                                std::uint32_t user) { tell_trouble(id, grant, passage, user); },
       .on_not_itself =
           [id](const Error& error) {
             log::warning("door.own_name", {{"pool", id},
                                            {"why", error},
                                            {"effect", "the daemon's log names tranche mps instead of its clients"},
                                            {"instead", "run tranche mps as root with SYS_ADMIN, SETUID and hostPID"}});
           },
       .on_change = world_.on_change,
       .on_server_doubted =
           [this, id](const std::string& why) {
             if (world_.on_server_doubted) world_.on_server_doubted(id, why);
           },
       .prepare = std::move(prepare_one),
       .answer = [this, id](const std::string& grant,
                            const mps::GateQuestion& asked) { return told_of_itself(id, grant, asked); },
       .look = [this, id](const std::string& grant, int pid,
                          const ClientLooks::Done& done) { look_at(id, grant, pid, done); },
       .socket = [this, id](const std::string& grant) { return socket_of(id, grant); }});
  set_kinds(pool);
}

void Doors::remove_pool(const std::string& pool) {
  pools_.erase(pool);
  std::erase_if(ending_, [&](const auto& entry) { return entry.first.pool == pool; });
}

Result<Doors::Pool*> Doors::find(const std::string& id) {
  const auto found = pools_.find(id);
  if (found == pools_.end())
    return fail(Kind::kNotFound, "tranche mps does not serve this pool (yet): it may run with another configuration",
                id);
  return &found->second;
}

// A door in link mode has its drain socket too.
Status Doors::listen(const std::string& id, Pool& pool, const std::string& grant) {
  auto made = host::Dir::open(settings_.paths.doors(id));
  if (!made) return std::unexpected(within(std::move(made).error(), "the MPS pool has no directory of doors"));
  auto directory = made->make_subdir(grant, 0755);
  if (!directory) return std::unexpected(within(std::move(directory).error(), "cannot make the grant's endpoint"));
  Door& door = door_of(pool, grant);
  if (!door.drain) {
    auto drain = host::DrainSocket::open(
        loop_, *directory, {},
        [this, name = DoorName{id, grant}](const host::DrainSocket::Asked& asked,
                                           const host::DrainSocket::Reply& reply) {
          const bool spare = asked.signal != SIGKILL;
          // The node's own container runtime speaks for whichever container is there.
          if (asked.uid == 0 && is_of_the_node(asked.pid))
            return draining_.drain(name, {0, "its container is about to be signalled", spare, asked.signal}, reply);
          if (asked.pid > 0)
            return draining_.drain(name, {asked.pid, "asked for in its container", spare, asked.signal}, reply);
          reply(error_reply(
              {Kind::kUnsupported, "the caller cannot be seen; run tranche mps with hostPID: true", "drain", 0}));
        });
    if (!drain) return std::unexpected(within(std::move(drain).error(), "cannot open the grant's drain socket"));
    door.drain = *std::move(drain);
  }
  if (pool.gate) {
    set_kinds(pool);
    TRY_STATUS(pool.gate->open_door(grant, *directory));
    pool.gate->keep_waiting(grant, ending_.contains({id, grant}));
    return {};
  }
  const auto linked = directory->hard_link(socket_of(id, grant), "control");
  // Without a daemon there is nothing to link; its start does it.
  if (!linked && linked.error().kind != Kind::kNotFound)
    return std::unexpected(within(linked.error(), "cannot put the pool's control socket into the grant's endpoint"));
  return {};
}

Status Doors::open_pool(const std::string& id) {
  TRY_STATUS(add_pool(id));
  Pool& pool = pools_.at(id);
  pool.wants_clients = true;
  if (settings_.policy == config::DoorPolicy::kLink) return use_links(id, kAskedForLinks);
  // Each start may be another driver's: its first words are looked at before clients are sent there.
  const std::string below = pool.server.empty() ? "" : "/" + pool.server;
  pool.probe = host::probe_daemon(loop_, settings_.paths.pipe(id) + below + "/control", settings_.greeting,
                                  [this, id](const Status& status) { on_greeting(id, status); });
  return {};
}

void Doors::on_greeting(const std::string& id, const Status& status) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  Pool& pool = found->second;
  if (!status && status.error().kind == Kind::kUnsupported) {
    if (const auto linked = use_links(id, to_string(status.error())); !linked)
      log::error("doors.not_linked", {{"pool", id}, {"why", linked.error()}});
    return;
  }
  // A daemon that does not answer is the pool's to notice; clients wait at the gate meanwhile.
  if (!status) log::warning("doors.unanswered", {{"pool", id}, {"why", status.error()}});
  if (!pool.gate) {
    make_gate(id, pool);
    pool.link_reason.clear();
    for (const auto& [grant, door] : pool.doors) {
      if (const auto listening = listen(id, pool, grant); !listening)
        log::warning("door.closed", {{"pool", id}, {"grant", grant}, {"why", listening.error()}});
    }
  }
  if (pool.wants_clients) pool.gate->serve();
  world_.on_change();
}

Status Doors::use_links(const std::string& id, const std::string& reason) {
  Pool& pool = pools_.at(id);
  pool.gate.reset();
  if (pool.link_reason != reason)
    log::warning("doors.linked", {{"pool", id}, {"why", reason}, {"effect", kTenantsCommand + 2}});
  pool.link_reason = reason;
  TRY(const auto dirs, host::PoolDirs::make(settings_.paths, id));
  const auto linked = dirs.relink_doors(pool.server);
  tell_own_limits(id);
  world_.on_change();
  return linked;
}

void Doors::hold_pool(const std::string& id) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second.wants_clients = false;
  found->second.probe.reset();
  if (found->second.gate) found->second.gate->hold();
}

void Doors::clients_seen(const std::string& id, const std::vector<host::ProcessRef>& clients) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  Pool& pool = found->second;
  std::map<int, Seen> seen;
  for (const auto& client : clients) {
    const int pid = client.pid;
    if (pool.gate && pool.gate->grant_of(pid) != nullptr) continue;
    const auto known = pool.seen.find(pid);
    const bool same = known != pool.seen.end() && known->second.process == client;
    auto grant =
        same ? known->second.grant : grant_by_mounts(pid, settings_.paths.mps_root, id).value_or(std::string());
    if (pool.gate && !grant.empty()) {
      pool.gate->remember(grant, pid);
      note_pod(id, grant, pid);
    } else {
      seen.emplace(pid, Seen{client, std::move(grant)});
    }
  }
  pool.seen = std::move(seen);
}

void Doors::server_took(const std::string& id, int pid) {
  const auto found = pools_.find(id);
  if (found != pools_.end() && found->second.gate) found->second.gate->server_took(pid);
}

void Doors::server_replaced(const std::string& id) {
  const auto found = pools_.find(id);
  if (found != pools_.end() && found->second.gate) found->second.gate->new_server();
}

std::string Doors::refuses(const std::string& id, const std::string& grant, int pid) const {
  const auto& pool = pools_.at(id);
  if (const auto door = pool.doors.find(grant); door != pool.doors.end() && !door->second.admitting)
    return door->second.reason.empty() ? "closed" : door->second.reason;
  const auto* known = pool.gate->grant_of(pid);
  if (known == nullptr) {
    if (auto full = no_room(pool, grant); !full.empty()) return full;
  } else if (known->empty()) {
    return "it is a client of the share's former tenant, whose clients are being ended";
  }
  if (const auto door = pool.doors.find(grant); door != pool.doors.end() && !door->second.pod.empty()) {
    const auto pod = pod_of(pid);
    if (!pod.empty() && pod != door->second.pod)
      return fmt::format("it runs in the pod {}, and the share belongs to the pod {}", pod, door->second.pod);
  }
  return draining_.refuses({id, grant}, pid);
}

std::vector<int> Doors::clients_of(const DoorName& door) const {
  const auto found = pools_.find(door.pool);
  if (found == pools_.end()) return {};
  if (found->second.gate) return found->second.gate->door(door.grant).clients;
  std::vector<int> pids;
  for (const auto& [pid, client] : found->second.seen) {
    if (client.grant == door.grant) pids.push_back(pid);
  }
  return pids;
}

std::string Doors::pod_with(const DoorName& door) const {
  for (const int pid : clients_of(door)) {
    auto pod = pod_of(pid);
    if (!pod.empty() && grant_by_mounts(pid, settings_.paths.mps_root, door.pool) == door.grant) return pod;
  }
  return {};
}

bool Doors::has_doors(const std::string& id) const {
  const auto found = pools_.find(id);
  return found != pools_.end() && !found->second.doors.empty();
}

std::vector<int> Doors::clients(const std::string& id) const {
  std::vector<int> pids;
  const auto found = pools_.find(id);
  if (found == pools_.end()) return pids;
  for (const auto& [grant, door] : found->second.doors) {
    const auto some = clients_of({id, grant});
    pids.insert(pids.end(), some.begin(), some.end());
  }
  return pids;
}

std::optional<std::vector<int>> Doors::relay_clients(const std::string& id) const {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.gate) return std::nullopt;
  return clients(id);
}

const std::string* Doors::grant_of(const std::string& id, int pid) const {
  const auto found = pools_.find(id);
  return found == pools_.end() || !found->second.gate ? nullptr : found->second.gate->grant_of(pid);
}

Status Doors::open_door(const DoorName& door, const std::optional<mps::GrantLimits>& limits) {
  TRY_STATUS(may_open(door, limits));
  return listen(door.pool, pools_.at(door.pool), door.grant);
}

Status Doors::may_open(const DoorName& door, const std::optional<mps::GrantLimits>& limits) {
  TRY(Pool * pool, find(door.pool));
  if (!pool->gate && !pool->wants_clients)
    return fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", door.pool);
  if (limits) return keep_limits(door, *pool, *limits);
  (void)door_of(*pool, door.grant);
  return {};
}

Doors::Door& Doors::door_of(Pool& pool, const std::string& grant) {
  Door& door = pool.doors[grant];
  if (door.made == 0) stamp(door);
  return door;
}

void Doors::stamp(Door& door) {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(loop_.now().time_since_epoch()).count();
  door.made = last_made_ = std::max(last_made_ + 1, static_cast<std::uint64_t>(now));
}

Status Doors::vacate(const DoorName& name, Pool& pool) {
  const auto clients = clients_of(name);
  if (pool.gate) pool.gate->close_door(name.grant);
  if (!clients.empty()) end_former_clients(name, clients);
  if (pool.gate) pool.gate->disown(name.grant);
  for (auto& [pid, client] : pool.seen)
    if (client.grant == name.grant) client.grant.clear();
  pool.doors.erase(name.grant);
  draining_.forget(name);
  log_.forget(name.grant);
  TRY_STATUS(keep_for_any_pod(settings_.paths, name, false));
  TRY(const auto directory, host::Dir::open(settings_.paths.doors(name.pool)));
  return directory.remove_tree(name.grant);
}

void Doors::end_former_clients(const DoorName& name, const std::vector<int>& clients) {
  log::warning("door.former_clients", {{"pool", name.pool},
                                       {"grant", name.grant},
                                       {"clients", clients.size()},
                                       {"why", "their pod does not hold the share any more"},
                                       {"effect", "they are stopped, waited for and killed"}});
  ++ending_[name];
  const auto once = std::make_shared<bool>(false);
  const auto ended = [this, name, once, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && !std::exchange(*once, true)) former_clients_ended(name);
  };
  loop_.after(settings_.former_clients, ended);  // a pool that goes meanwhile does not answer
  world_.terminate(name.pool, {clients}, [name, ended](const Terminated& outcomes) {
    for (const auto& each : outcomes)
      if (each.outcome == mps::TerminateOutcome::kRefused || each.outcome == mps::TerminateOutcome::kTimedOut)
        log::warning("door.former_client_left",
                     {{"pool", name.pool}, {"grant", name.grant}, {"pid", each.pid}, {"why", each.note}});
    ended();
  });
}

void Doors::former_clients_ended(const DoorName& name) {
  const auto found = ending_.find(name);
  if (found == ending_.end() || --found->second > 0) return;
  ending_.erase(found);
  const auto pool = pools_.find(name.pool);
  if (pool != pools_.end() && pool->second.gate) pool->second.gate->keep_waiting(name.grant, false);
}

// The directory is mounted into one container only, so the pod that comes first is the one that kubelet gave it to. A
// process of a different pod has been handed a way in.
void Doors::note_pod(const std::string& id, const std::string& grant, int pid) {
  const auto pool = pools_.find(id);
  if (pool == pools_.end()) return;
  const auto door = pool->second.doors.find(grant);
  if (door != pool->second.doors.end() && door->second.pod.empty() && !door->second.any_pod)
    door->second.pod = pod_of(pid);
}

Status Doors::remove_door(const DoorName& door, std::optional<std::uint64_t> made) {
  TRY(Pool * pool, find(door.pool));
  if (const auto there = pool->doors.find(door.grant);
      made && there != pool->doors.end() && there->second.made != *made)
    return fail(Kind::kConflict, "the grant's endpoint was made anew since: it has a new tenant", door.grant);
  TRY_STATUS(vacate(door, *pool));
  TRY_STATUS(remove_door_limits(settings_.paths, door));
  log::info("door.removed", {{"pool", door.pool}, {"grant", door.grant}});
  provide(door.pool, [](const Status&) {});
  world_.on_change();
  return {};
}

Status Doors::admit(const DoorName& door, bool open, const std::string& reason) {
  TRY(Pool * pool, find(door.pool));
  if (!pool->gate)
    return fail(Kind::kUnsupported, "doors of this pool are links, which cannot be closed: " + pool->link_reason,
                door.pool);
  const auto found = pool->doors.find(door.grant);
  if (found == pool->doors.end()) return fail(Kind::kNotFound, "there is no such endpoint", door.grant);
  if (found->second.admitting != open || found->second.reason != reason)
    log::info("door.admits", {{"pool", door.pool}, {"grant", door.grant}, {"open", open}, {"why", reason}});
  found->second.admitting = open;
  found->second.reason = open ? std::string() : reason;
  world_.on_change();
  return {};
}

void Doors::describe(const std::string& id, nlohmann::ordered_json& into) const {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  const Pool& pool = found->second;
  into["door"] = pool.gate ? "gate" : "link";
  into["doorReason"] = pool.gate ? std::string() : pool.link_reason + kTenantsCommand;
  if (!pool.gate && into.contains("notEnforced"))
    into["notEnforced"].push_back(pool.server.empty()
                                      ? "the limits of a grant are set in its container's environment only"
                                      : "any client can list all tenants");
  auto list = nlohmann::ordered_json::array();
  for (const auto& [grant, door] : pool.doors) {
    const auto view = pool.gate ? pool.gate->door(grant) : host::DoorView{};
    const bool draining = draining_.closed({id, grant});
    list.push_back({{"grant", grant},
                    {"made", door.made},
                    {"pod", door.pod},
                    {"anyPod", door.any_pod},
                    {"clients", view.clients},
                    {"admitting", door.admitting && !draining},
                    {"reason", !door.admitting ? door.reason
                               : draining      ? "its container is being stopped"
                                               : door.not_limited},
                    {"limits", limits_json(door.limits)},
                    {"attempts", view.counters.attempts},
                    {"refused", view.counters.refused},
                    {"refusedWhy", door.refused_why},
                    {"limitsLifted", door.limits_lifted},
                    {"stalled", view.counters.stalled},
                    {"failed", view.counters.failed}});
  }
  into["doors"] = std::move(list);
}

}  // namespace tranche::agent
