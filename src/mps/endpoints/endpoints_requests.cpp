// Answers the requests on mps.sock.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "mps/endpoints/endpoints.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

using Reply = std::function<void(const std::string&)>;

void say(const Reply& reply, const Status& status) {
  reply(status ? done_reply() : error_reply(status.error()));
}

}  // namespace

void Endpoints::answer(const std::string& request, Reply reply) {
  const auto parsed = parse_mps_request(request);
  if (!parsed) return reply(error_reply(parsed.error()));
  if (const auto* open = std::get_if<OpenEndpointRequest>(&*parsed)) return say(reply, open_for(*open));
  if (const auto* gone = std::get_if<RemoveEndpointRequest>(&*parsed))
    return say(reply, remove_endpoint(gone->endpoint, gone->made));
  if (const auto* admission = std::get_if<AdmitRequest>(&*parsed))
    return say(reply, admit(admission->endpoint, admission->open, admission->reason));
  const auto& terminate = std::get<TerminateRequest>(*parsed);
  if (const auto pool = find(terminate.pool); !pool) return reply(error_reply(pool.error()));
  std::set<std::string> grants;
  for (const auto pid : terminate.pids)
    if (const auto* grant = grant_of(terminate.pool, pid)) grants.insert(*grant);
  log::info("clients.terminate", {{"pool", terminate.pool},
                                  {"grants", fmt::format("{}", fmt::join(grants, ","))},
                                  {"clients", terminate.pids.size()},
                                  {"why", terminate.reason}});
  callbacks_.terminate(terminate.pool, terminate.pids,
                       [reply = std::move(reply), begun = loop_.now(), &loop = loop_](const Terminated& outcomes) {
                         reply(end_reply({.clients = outcomes, .took = loop.now() - begun}));
                       });
}

// Stores the limits before the endpoint listens. A new tenant gets a directory of its own: a former one may have kept
// the old directory open, or clients. A container that runs with the endpoint keeps it: a kubelet that lost its
// checkpoint asks again for the shares of pods that run, and gives those of a static pod away in its grace period.
Status Endpoints::open_for(const OpenEndpointRequest& request) {
  TRY(Pool * pool, find(request.endpoint.pool));
  const bool vacates = request.new_tenant && pool->endpoints.contains(request.endpoint.grant);
  const auto in_use = vacates ? pod_with(request.endpoint) : std::string();
  if (!in_use.empty()) {
    log::warning("endpoint.kept", {{"pool", request.endpoint.pool},
                                   {"grant", request.endpoint.grant},
                                   {"pod", in_use},
                                   {"why", "kubelet asks for the share again, and a container that has it runs"}});
    Endpoint& kept = endpoint_of(*pool, request.endpoint.grant);
    let_any_pod(request.endpoint, kept);
    stamp(kept);  // an order to remove the endpoint of the pod that has it must not reach the one that gets it
  }
  if (vacates && in_use.empty()) {
    TRY_STATUS(vacate(request.endpoint, *pool));
    if (!request.limits) {
      TRY_STATUS(remove_endpoint_limits(settings_.paths, request.endpoint));
    }
  }
  const auto before = pool->endpoints.find(request.endpoint.grant);
  const bool was_there = before != pool->endpoints.end();
  const auto limits_before = was_there ? before->second.limits : std::nullopt;
  TRY_STATUS(may_open(request.endpoint, request.limits));
  if (request.any_pod) let_any_pod(request.endpoint, endpoint_of(*pool, request.endpoint.grant));
  if (!request.pod.empty()) {
    TRY_STATUS(let_pod(request.endpoint, endpoint_of(*pool, request.endpoint.grant), request.pod));
  }
  const auto opened = listen(request.endpoint.pool, *pool, request.endpoint.grant);
  if (!opened) take_back(request.endpoint, *pool, was_there, limits_before);
  return opened;
}

void Endpoints::take_back(const EndpointName& name, Pool& pool, bool was_there,
                          const std::optional<mps::GrantLimits>& limits) {
  const auto kept =
      limits ? write_endpoint_limits(settings_.paths, name, *limits) : remove_endpoint_limits(settings_.paths, name);
  if (!kept)
    log::warning("endpoint.limits_not_kept", {{"pool", name.pool}, {"grant", name.grant}, {"why", kept.error()}});
  if (was_there) {
    pool.endpoints[name.grant].limits = limits;
  } else {
    pool.endpoints.erase(name.grant);
  }
  callbacks_.on_change();
}

void Endpoints::let_any_pod(const EndpointName& name, Endpoint& endpoint) {
  endpoint.pod.clear();
  const bool was = std::exchange(endpoint.any_pod, true);
  auto kept = keep_pod(settings_.paths, name, {});
  if (kept) kept = keep_for_any_pod(settings_.paths, name, true);
  if (!kept)
    log::warning(
        "endpoint.any_pod_not_kept",
        {{"pool", name.pool},
         {"grant", name.grant},
         {"why", kept.error()},
         {"effect",
          "after a restart of `tranche mps` the endpoint serves one pod until `tranche node` repeats the request"}});
  if (!was) callbacks_.on_change();
}

Status Endpoints::let_pod(const EndpointName& name, Endpoint& endpoint, const std::string& uid) {
  TRY_STATUS(keep_for_any_pod(settings_.paths, name, false));
  TRY_STATUS(keep_pod(settings_.paths, name, uid));
  const bool same = endpoint.pod == uid && !endpoint.any_pod;
  endpoint.pod = uid;
  endpoint.any_pod = false;
  if (!same) callbacks_.on_change();
  return {};
}

}  // namespace tranche::agent
