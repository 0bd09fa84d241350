// Answers the requests on mps.sock.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::mps {
namespace {

void say(const Endpoints::Reply& reply, const Status& status) {
  reply(status ? done_reply() : error_reply(status.error()));
}

}  // namespace

void Endpoints::answer(const MpsRequest& request, Reply reply) {
  if (const auto* open = std::get_if<OpenEndpointRequest>(&request)) return say(reply, open_for(*open));
  if (const auto* gone = std::get_if<RemoveEndpointRequest>(&request))
    return say(reply, remove_endpoint(gone->endpoint.grant, gone->made));
  if (const auto* admission = std::get_if<AdmitRequest>(&request))
    return say(reply, admit(admission->endpoint.grant, admission->open, admission->reason));
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
  auto& loop = context_.loop;
  owner_.end_clients(request.pids,
                     [reply = std::move(reply), begun = loop.now(), &loop](const std::vector<Terminated>& outcomes) {
                       reply(end_reply({.clients = outcomes, .took = loop.now() - begun}));
                     });
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
  const auto* const there = find(grant);
  const auto before = there == nullptr ? std::nullopt : std::optional(there->terms);
  // Limits that take the place of a file that cannot be read stay: without them the grant would have the pool's own.
  const bool unreadable = there != nullptr && !there->unreadable.empty();
  auto terms = before.value_or(EndpointTerms());
  const auto& asked = request.terms;
  if (asked.limits) terms.limits = asked.limits;
  if (asked.any_pod || !asked.pod.empty() || !in_use.empty()) {
    terms.any_pod = asked.pod.empty();
    terms.pod = asked.pod;
  }
  TRY_STATUS(keep(grant, terms));
  const auto opened = listen(grant);
  if (!opened && !unreadable) take_back(grant, before);
  return opened;
}

void Endpoints::take_back(const std::string& grant, const std::optional<EndpointTerms>& before) {
  const auto kept = files_.keep(grant, before.value_or(EndpointTerms()));
  if (!kept) log::warning("endpoint.limits_not_kept", {{"pool", id_}, {"grant", grant}, {"why", kept.error()}});
  if (before) {
    endpoints_[grant].terms = *before;
  } else {
    endpoints_.erase(grant);
  }
  context_.on_change();
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
    if (!alive.expired() && !std::exchange(*once, true)) former_clients_ended(grant);
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

void Endpoints::former_clients_ended(const std::string& grant) {
  const auto found = ending_.find(grant);
  if (found == ending_.end() || --found->second > 0) return;
  ending_.erase(found);
  if (relay_) relay_->keep_waiting(grant, false);
}

Status Endpoints::remove_endpoint(const std::string& grant, std::optional<std::uint64_t> made) {
  if (const auto* there = find(grant); made && there != nullptr && there->made != *made)
    return fail(Kind::kConflict, "the grant's endpoint has been replaced: it has a new tenant", grant);
  TRY_STATUS(vacate(grant));
  TRY_STATUS(files_.keep(grant, {}));
  log::info("endpoint.removed", {{"pool", id_}, {"grant", grant}});
  context_.on_change();
  return {};
}

Status Endpoints::admit(const std::string& grant, bool open, const std::string& reason) {
  if (!relay_)
    return fail(Kind::kUnsupported, "endpoints of this pool are links, which cannot be closed: " + link_reason_, id_);
  Endpoint* const endpoint = find(grant);
  if (endpoint == nullptr) return fail(Kind::kNotFound, "there is no such endpoint", grant);
  if (endpoint->admitting != open || endpoint->reason != reason)
    log::info("endpoint.admits", {{"pool", id_}, {"grant", grant}, {"open", open}, {"why", reason}});
  endpoint->admitting = open;
  endpoint->reason = open ? std::string() : reason;
  context_.on_change();
  return {};
}

}  // namespace tranche::mps
