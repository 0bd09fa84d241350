#include "mps/endpoints/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "containers/attribution.h"
#include "mps/endpoints/containers.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::mps {
namespace {

constexpr const char* kAskedForLinks = "the configuration asks for it (sharing.mps.endpoint: link)";
constexpr const char* kTenantsCommand = "; tenants with root can command this daemon";

void say(const Endpoints::Reply& reply, const Status& status) {
  reply(status ? done_reply() : error_reply(status.error()));
}

}  // namespace

EndpointsContext::EndpointsContext(os::Loop& event_loop, EndpointsSettings with, std::function<void()> changed)
    : loop(event_loop),
      settings(std::move(with)),
      on_change(std::move(changed)),
      looks(loop),
      keeper(loop, {.mps_root = settings.paths.mps_root, .home = settings.home}, [this] {
        for (auto* const each : all) each->let_newcomers();
        on_change();
      }) {}

Endpoints::Endpoints(EndpointsContext& context, const std::string& pool, EndpointsPool& owner)
    : context_(context),
      id_(pool),
      owner_(owner),
      terms_(context.settings.paths.pool(pool) + "/limits"),
      newcomers_timer_(context.loop) {
  context_.all.push_back(this);
}

Endpoints::~Endpoints() {
  relay_.reset();  // it may call this object
  std::erase(context_.all, this);
}

Result<std::unique_ptr<Endpoints>> Endpoints::open(EndpointsContext& context, const std::string& id,
                                                   EndpointsPool& owner) {
  auto directory = os::Dir::create(context.settings.paths.endpoints(id), 0755);
  if (!directory)
    return std::unexpected(within(std::move(directory).error(), "cannot make the directory of endpoints"));
  TRY(const auto names, directory->list());
  std::unique_ptr<Endpoints> made(new Endpoints(context, id, owner));
  if (context.settings.policy == config::EndpointPolicy::kRelay) {
    made->make_relay();
  } else {
    made->link_reason_ = kAskedForLinks;
  }
  for (const auto& grant : names) {
    if (!containers::is_grant(grant)) continue;
    made->recall(grant);
    made->listen_or_log(grant);
  }
  return made;
}

void Endpoints::make_relay() {
  auto settings = context_.settings.relay;
  settings.daemon_socket = context_.settings.paths.pipe(id_) + "/control";
  relay_ = std::make_unique<Relay>(context_.loop, std::move(settings), *this);
  restore_clients();
}

void Endpoints::client_exited(int pid) {
  if (relay_) context_.keeper.exited(pid, relay_->clients().contexts(pid) > 0);
  owner_.client_gone(pid);
}

void Endpoints::not_as_client(const Error& why) {
  log::warning("endpoint.own_name", {{"pool", id_},
                                     {"why", why},
                                     {"effect", "the daemon's log names tranche mps instead of its clients"},
                                     {"instead", "run tranche mps as root with SYS_ADMIN, SETUID and hostPID"}});
}

void Endpoints::clients_changed() {
  if (!newcomers_.empty()) newcomers_timer_.start({}, [this] { let_newcomers(); });
  context_.on_change();
}

Status Endpoints::listen(const std::string& grant) {
  auto made = os::Dir::open(context_.settings.paths.endpoints(id_));
  if (!made) return std::unexpected(within(std::move(made).error(), "the MPS pool has no directory of endpoints"));
  auto directory = made->make_subdir(grant, 0755);
  if (!directory) return std::unexpected(within(std::move(directory).error(), "cannot make the grant's endpoint"));
  (void)endpoint_of(grant);
  if (relay_) {
    return relay_->open_endpoint(grant, *directory);
  }
  const auto linked = directory->hard_link(context_.settings.paths.pipe(id_) + "/control", "control");
  // Without a daemon there is nothing to link; its start creates the link.
  if (!linked && linked.error().kind != Kind::kNotFound)
    return std::unexpected(within(linked.error(), "cannot put the pool's control socket into the grant's endpoint"));
  return {};
}

void Endpoints::listen_or_log(const std::string& grant) {
  if (const auto listening = listen(grant); !listening)
    log::warning("endpoint.closed", {{"pool", id_}, {"grant", grant}, {"why", listening.error()}});
}

Status Endpoints::serve() {
  wants_clients_ = true;
  if (context_.settings.policy == config::EndpointPolicy::kLink) return use_links(kAskedForLinks);
  // Each start may use a different driver: its greeting is checked before clients are connected to it.
  probe_ =
      std::make_unique<Ping>(context_.loop, context_.settings.paths.pipe(id_) + "/control", context_.settings.greeting,
                             [this](const Result<bool>& is_known) { on_greeting(is_known); });
  return {};
}

void Endpoints::on_greeting(const Result<bool>& is_known) {
  if (is_known && !*is_known) {
    const Error unknown{Kind::kUnsupported, "the greeting of the MPS daemon is not one that this program knows",
                        context_.settings.paths.pipe(id_) + "/control", 0};
    if (const auto linked = use_links(to_string(unknown)); !linked)
      log::error("endpoints.not_linked", {{"pool", id_}, {"why", linked.error()}});
    return;
  }
  // The pool notices a daemon that does not answer; meanwhile clients wait at the relay.
  if (!is_known) log::warning("endpoints.unanswered", {{"pool", id_}, {"why", is_known.error()}});
  if (!relay_) {
    make_relay();
    link_reason_.clear();
    for (const auto& [grant, endpoint] : endpoints_) listen_or_log(grant);
  }
  if (wants_clients_) relay_->serve();
  context_.on_change();
}

Status Endpoints::use_links(const std::string& reason) {
  relay_.reset();
  store_clients("");
  if (link_reason_ != reason)
    log::warning("endpoints.linked", {{"pool", id_}, {"why", reason}, {"effect", kTenantsCommand + 2}});
  link_reason_ = reason;
  Status linked;  // the first error
  for (const auto& [grant, endpoint] : endpoints_)
    if (const auto one = listen(grant); !one && linked)
      linked = std::unexpected(within(one.error(), "endpoint " + grant));
  // Through links clients connect at any time: no grant's limits may stay set.
  owner_.set_next_limits(std::nullopt, [id = id_](const Status& status) {
    if (!status) log::warning("pool.limits_not_own", {{"pool", id}, {"why", status.error()}});
  });
  context_.on_change();
  return linked;
}

void Endpoints::hold() {
  wants_clients_ = false;
  probe_.reset();
  if (relay_) relay_->hold();
}

void Endpoints::read_log(const LogLine& line) {
  if (!relay_) return;
  const auto context = static_cast<std::uint32_t>(line.number);
  switch (line.what) {
    case LogWhat::kClientTaken:
      servers_.insert(line.writer);
      return context_.keeper.look(line.pid);
    case LogWhat::kContextBegan:
      relay_->clients().context_began(line.pid, context);
      return context_.keeper.look(line.pid);
    case LogWhat::kContextEnded:
      return relay_->context_ended(line.pid, context);
    default:
      return;
  }
}

std::size_t Endpoints::unprotected() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      clients(), [this](int pid) { return context_.keeper.of(pid).state != Protection::State::kYes; }));
}

std::size_t Endpoints::dead() const {
  std::size_t count = 0;
  for (const auto& [grant, endpoint] : endpoints_) count += context_.keeper.dead(owner_name(grant)).size();
  return count;
}

// The first context of a client has the place that was kept for it when the process connected.
std::string Endpoints::no_place(const std::string& grant, int pid) const {
  const auto* known = relay_->clients().grant_of(pid);
  const bool needs_one = known == nullptr || (!known->empty() && relay_->clients().beyond_first(pid) > 0);
  auto why = needs_one ? no_capacity(grant) : std::string();
  return why.empty() && known == nullptr ? remains_of(grant) : why;
}

RelayOwner::Refusal Endpoints::refuses(const std::string& grant, int pid) {
  const auto* const endpoint = find_in(endpoints_, grant);
  const auto* known = relay_->clients().grant_of(pid);
  if (known == nullptr && (relay_->clients().remnant(pid) || gone_.contains(pid)))
    return {"the MPS server still has a client with this process id, which has exited; start the program again"};
  // A client's places count for the share through whose endpoint it connected first.
  if (known != nullptr && !known->empty() && *known != grant)
    return {"it is a client of another share, and a process can use only one share; start one process for each share"};
  if (auto full = no_place(grant, pid); !full.empty()) return {std::move(full), true};
  if (known != nullptr && known->empty())
    return {"it is a client of the share's former tenant, whose clients are being ended"};
  if (known == nullptr) {
    const auto pod = pod_of(pid);
    if (!pod) return {"the process cannot be identified: it has exited, or its threads end while they are read"};
    if (endpoint != nullptr && !endpoint->pod().empty() && !pod->empty() && *pod != endpoint->pod())
      return {fmt::format("it runs in the pod {}, and the share belongs to the pod {}", *pod, endpoint->pod())};
  }
  return {context_.ending_containers.refuses(pid)};
}

std::vector<int> Endpoints::clients_of(const std::string& grant) const {
  auto pids = relay_ ? relay_->clients().of(grant) : std::vector<int>{};
  for (const auto& [pid, client] : seen_)
    if (client.grant == grant && os::process_ref(pid) == client.process) pids.push_back(pid);
  return pids;
}

std::vector<int> Endpoints::clients() const {
  std::vector<int> pids;
  for (const auto& [grant, endpoint] : endpoints_) {
    const auto some = clients_of(grant);
    pids.insert(pids.end(), some.begin(), some.end());
  }
  return pids;
}

std::optional<std::vector<int>> Endpoints::relay_clients() const {
  return relay_ ? std::optional(clients()) : std::nullopt;
}

const std::string* Endpoints::grant_of(int pid) const {
  return relay_ ? relay_->clients().grant_of(pid) : nullptr;
}

// The directory is mounted into one container only, so the first pod that connects is the one that kubelet gave it to.
// A process of a different pod got a descriptor from it.
void Endpoints::client_connects(const std::string& grant, int pid) {
  seen_.erase(pid);
  Endpoint* const endpoint = find_in(endpoints_, grant);
  if (endpoint != nullptr && endpoint->pod().empty() && !endpoint->terms.any_pod)
    endpoint->first_pod = pod_of(pid).value_or(std::string());
  if (const auto process = os::process_ref(pid); relay_ && process)
    relay_->clients().in_container(pid, container_of(pid), process->start_ticks);
  context_.keeper.hold(pid, owner_name(grant));
}

// --- limits ---------------------------------------------------------------------------------------------------------

// Written first: if this program ends here, the endpoint does not listen yet, or the next start reads its limits.
Status Endpoints::keep(const std::string& grant, const EndpointTerms& terms) {
  const auto* const known = find_in(endpoints_, grant);
  const auto before = known == nullptr ? EndpointTerms() : known->terms;
  if (known != nullptr && before == terms) return {};
  // A file that cannot be read admits no client until a request has the limits.
  if (terms.limits || known == nullptr || known->unreadable.empty()) TRY_STATUS(keep_terms(terms_, grant, terms));
  Endpoint& endpoint = endpoint_of(grant);
  endpoint.terms = terms;
  if (terms.any_pod) endpoint.first_pod.clear();
  if (terms.limits && terms.limits != before.limits) {
    for (const auto& limit : *terms.limits) {
      log::info("endpoint.limits", {{"pool", id_},
                                    {"grant", grant},
                                    {"uuid", limit.uuid},
                                    {"memory_mib", limit.memory.in_mib()},
                                    {"percent", limit.threads.value()}});
    }
    endpoint.unreadable.clear();
    endpoint.not_limited.clear();
  }
  context_.on_change();
  return {};
}

void Endpoints::recall(const std::string& grant) {
  auto terms = read_terms(terms_, grant);
  Endpoint& endpoint = endpoint_of(grant);
  if (terms) {
    endpoint.terms = *std::move(terms);
    return;
  }
  endpoint.unreadable = endpoint.not_limited = to_string(terms.error());
  log::error("endpoint.limits_unreadable",
             {{"pool", id_}, {"grant", grant}, {"why", terms.error()}, {"effect", "its clients are not let in"}});
}

ProofTurn Endpoints::take_turn(std::function<void()> go) {
  return relay_ ? relay_->take_turn(std::move(go)) : Admission::take_turn(std::move(go));
}

void Endpoints::prepare(const std::string& grant, const Prepared& done) {
  if (grant.empty()) return owner_.set_next_limits(std::nullopt, done);
  const Endpoint& endpoint = endpoints_[grant];
  if (!endpoint.unreadable.empty()) return done(fail(Kind::kInvalid, endpoint.unreadable, grant));
  owner_.set_next_limits(endpoint.terms.limits,
                         [this, grant, done, alive = std::weak_ptr(alive_)](const Status& status) {
                           if (!alive.expired()) note_prepared(grant, status);
                           done(status);
                         });
}

// The devices that the container holds, in the order in which it was given them; the pool's devices if it has the
// pool's own limits.
std::string Endpoints::answer(const std::string& grant, const RelayQuestion& question) {
  const auto* const endpoint = find_in(endpoints_, grant);
  if (endpoint == nullptr || !endpoint->unreadable.empty()) return {};
  const auto& own = endpoint->terms.limits;
  auto limits = owner_.limits_for(own);
  if (!limits) return {};
  if (own) {
    limits->memory.clear();
    for (const auto& limit : *own)
      limits->memory.emplace_back(limit.uuid, limit.memory.value == 0 ? kNoMemoryLimit : limit.memory);
  }
  return answer_to(question, *limits);
}

void Endpoints::ended_badly(const std::string& grant, const Passage& passage) {
  using enum RelayEnd;
  auto* const endpoint = find_in(endpoints_, grant);
  if (endpoint != nullptr && passage.end == kRefused) endpoint->refused_why = passage.why;
  const auto suppressed = pace_.due(grant, to_string(passage.end), context_.loop.now());
  if (!suppressed) return;
  const bool refused = passage.end == kRefused || passage.end == kAbandoned;
  const char* event = is_attempt(passage.end) ? "endpoint.attempt" : refused ? "endpoint.refused" : "endpoint.failed";
  log::warning(event, {{"pool", id_},
                       {"grant", grant},
                       {"pid", passage.client.pid != 0 ? passage.client.pid : passage.connected_by.pid},
                       {"uid", passage.connected_by.uid},
                       {"what", to_string(passage.end)},
                       {"why", passage.why},
                       {"suppressed", *suppressed}});
}

void Endpoints::note_prepared(const std::string& grant, const Status& status) {
  Endpoint* const endpoint = find_in(endpoints_, grant);
  if (endpoint == nullptr) return;
  std::string why;
  if (!status) why = fmt::format("its limits could not be set: {}", to_string(status.error()));
  if (endpoint->not_limited == why) return;
  if (!why.empty()) log::warning("endpoint.not_limited", {{"pool", id_}, {"grant", grant}, {"why", why}});
  endpoint->not_limited = std::move(why);
  context_.on_change();
}

// --- requests on mps.sock --------------------------------------------------------------------------------------------

void Endpoints::answer(const MpsRequest& request, Reply reply) {
  if (const auto* open = std::get_if<OpenEndpointRequest>(&request)) return say(reply, open_for(*open));
  if (const auto* gone = std::get_if<RemoveEndpointRequest>(&request))
    return say(reply, remove_endpoint(gone->endpoint.grant, gone->made));
  end_for(std::get<TerminateRequest>(request), std::move(reply));
}

void Endpoints::end_for(const TerminateRequest& request, Reply reply) {
  std::set<std::string> grants;
  for (const auto pid : request.pids)
    if (const auto* grant = grant_of(pid)) grants.insert(*grant);
  log::info("clients.terminate", {{"pool", id_},
                                  {"grants", fmt::format("{}", fmt::join(grants, ","))},
                                  {"clients", request.pids.size()},
                                  {"why", request.reason}});
  owner_.end_clients(request.pids, [reply = std::move(reply)](const auto& outcomes) { reply(end_reply(outcomes)); });
}

// Stores the limits before the endpoint listens. A new tenant gets a directory of its own: a former one may have kept
// the old directory open, or clients. A container that runs with the endpoint keeps it: a kubelet that lost its
// checkpoint asks again for the shares of pods that run, and gives those of a static pod away in its grace period.
Status Endpoints::open_for(const OpenEndpointRequest& request) {
  const std::string& grant = request.endpoint.grant;
  const bool vacates = request.new_tenant && endpoints_.contains(grant);
  const auto in_use = vacates ? pod_with(grant) : std::string();
  if (!in_use.empty()) {
    log::warning("endpoint.kept", {{"pool", id_},
                                   {"grant", grant},
                                   {"pod", in_use},
                                   {"why", "kubelet asks for the share again, and a container that has it runs"}});
    stamp(endpoint_of(grant));  // an order to remove the endpoint of the pod that has it must not reach the new one
  }
  if (vacates && in_use.empty()) TRY_STATUS(vacate(grant));
  if (!relay_ && !wants_clients_) return fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", id_);
  const auto* const there = find_in(endpoints_, grant);
  auto terms = there == nullptr ? EndpointTerms() : there->terms;
  const auto& asked = request.terms;
  if (asked.limits) terms.limits = asked.limits;
  if (asked.any_pod || !asked.pod.empty() || !in_use.empty()) {
    terms.any_pod = asked.pod.empty();
    terms.pod = asked.pod;
  }
  TRY_STATUS(keep(grant, terms));
  auto opened = listen(grant);
  if (opened || there != nullptr) return opened;
  endpoints_.erase(grant);
  if (const auto kept = keep_terms(terms_, grant, {}); !kept)
    log::warning("endpoint.limits_not_kept", {{"pool", id_}, {"grant", grant}, {"why", kept.error()}});
  return opened;
}

Endpoints::Endpoint& Endpoints::endpoint_of(const std::string& grant) {
  Endpoint& endpoint = endpoints_[grant];
  if (endpoint.made == 0) stamp(endpoint);
  return endpoint;
}

void Endpoints::stamp(Endpoint& endpoint) {
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(context_.loop.now().time_since_epoch()).count();
  endpoint.made = last_made_ = std::max(last_made_ + 1, static_cast<std::uint64_t>(now));
}

std::string Endpoints::pod_with(const std::string& grant) const {
  for (const int pid : clients_of(grant)) {
    auto pod = pod_of(pid).value_or(std::string());
    if (!pod.empty() && grant_by_mounts(pid, context_.settings.paths.mps_root, id_) == grant) return pod;
  }
  return {};
}

Status Endpoints::vacate(const std::string& grant) {
  auto clients = clients_of(grant);
  if (relay_) {
    const auto remnants = relay_->clients().remnants(grant);
    clients.insert(clients.end(), remnants.begin(), remnants.end());
    relay_->close_endpoint(grant);
  }
  if (!clients.empty()) end_former_clients(grant, clients);
  if (relay_) relay_->disown(grant);
  for (auto& [pid, client] : seen_)
    if (client.grant == grant) client.grant.clear();
  endpoints_.erase(grant);
  pace_.forget(grant);
  TRY(const auto directory, os::Dir::open(context_.settings.paths.endpoints(id_)));
  return directory.remove_tree(grant);
}

void Endpoints::end_former_clients(const std::string& grant, const std::vector<int>& clients) {
  log::warning("endpoint.former_clients", {{"pool", id_},
                                           {"grant", grant},
                                           {"clients", clients.size()},
                                           {"why", "their pod does not hold the share any more"},
                                           {"effect", "they are stopped, waited for and killed"}});
  ++ending_[grant];
  const auto once = std::make_shared<bool>(false);
  const auto ended = [this, grant, once, alive = std::weak_ptr(alive_)] {
    if (alive.expired() || std::exchange(*once, true) || --ending_.at(grant) > 0) return;
    ending_.erase(grant);
    clients_changed();
  };
  context_.loop.after(context_.settings.former_clients, ended);  // end_clients() may not answer
  owner_.end_clients(clients, [id = id_, grant, ended](const std::vector<Terminated>& outcomes) {
    for (const auto& each : outcomes)
      if (each.outcome == TerminateOutcome::kRefused || each.outcome == TerminateOutcome::kTimedOut)
        log::warning("endpoint.former_client_left",
                     {{"pool", id}, {"grant", grant}, {"pid", each.pid}, {"why", each.note}});
    ended();
  });
}

Status Endpoints::remove_endpoint(const std::string& grant, std::optional<std::uint64_t> made) {
  if (const auto* there = find_in(endpoints_, grant); made && there != nullptr && there->made != *made)
    return fail(Kind::kConflict, "the grant's endpoint has been replaced: it has a new tenant", grant);
  TRY_STATUS(vacate(grant));
  TRY_STATUS(keep_terms(terms_, grant, {}));
  log::info("endpoint.removed", {{"pool", id_}, {"grant", grant}});
  context_.on_change();
  return {};
}

void Endpoints::describe(nlohmann::ordered_json& into) const {
  into["endpoint"] = relay_ ? "relay" : "link";
  into["endpointReason"] = relay_ ? std::string() : link_reason_ + kTenantsCommand;
  auto list = nlohmann::ordered_json::array();
  for (const auto& [grant, endpoint] : endpoints_) {
    const auto clients = relay_ ? clients_of(grant) : std::vector<int>{};
    const auto counters = relay_ ? relay_->counters(grant) : EndpointCounters{};
    auto protections = nlohmann::ordered_json::array();
    for (const int pid : clients) {
      const auto protection = context_.keeper.of(pid);
      protections.push_back({{"pid", pid}, {"protected", to_string(protection.state)}, {"why", protection.why}});
    }
    list.push_back(
        {{"grant", grant},
         {"made", endpoint.made},
         {"pod", endpoint.pod()},
         {"anyPod", endpoint.terms.any_pod},
         {"clients", clients},
         {"protection", std::move(protections)},
         {"dead", context_.keeper.dead(owner_name(grant))},
         {"remnants", relay_ ? relay_->clients().remnants(grant) : std::vector<int>{}},
         {"places", relay_ ? relay_->clients().places(grant) : 0},
         {"reason", endpoint.not_limited},
         {"limits", endpoint.terms.limits ? limits_json(*endpoint.terms.limits) : nullptr},  // null: the pool's own
         {"attempts", counters.attempts},
         {"refused", counters.refused},
         {"refusedWhy", endpoint.refused_why},
         {"limitsLifted", endpoint.limits_lifted},
         {"completed", counters.completed},
         {"failed", counters.failed}});
  }
  into["endpoints"] = std::move(list);
}

}  // namespace tranche::mps
