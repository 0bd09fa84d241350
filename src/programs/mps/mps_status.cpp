#include "programs/mps/mps_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/version.h"
#include "observe/metrics/metric_names.h"

namespace tranche::programs {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kFaultKinds = {mps::FaultKind::kFatal, mps::FaultKind::kException, mps::FaultKind::kUncleanExit};

// Of a pool that was not opened yet: nothing is known.
const mps::Supervisor& supervisor_of(const mps::Pool& pool) {
  static const mps::Supervisor kNothingYet;
  return pool.daemon() != nullptr ? pool.daemon()->supervisor() : kNothingYet;
}

Json problems_of(const MpsView& view) {
  Json list = Json::array();
  for (const auto& problem : view.config.problems) list.push_back(to_string(problem));
  for (const auto& problem : view.plan_problems) list.push_back(to_string(problem));
  return list;
}

// The server's limits for future clients, as last reported.
Json limits_of_server(const mps::ServerSeen& server) {
  if (!server.limits) return nullptr;
  Json memory = Json::array();
  for (const auto& [uuid, limit] : server.limits->memory)
    memory.push_back({{"uuid", uuid}, {"memory", mps::as_printed(limit)}});
  return {{"memory", std::move(memory)}, {"threads", mps::as_printed(server.limits->threads)}};
}

Json servers_of(const mps::Supervisor& s) {
  Json list = Json::array();
  for (const auto& server : s.servers) {
    list.push_back({{"pid", server.pid},
                    {"status", server.status},
                    {"clients", server.clients},
                    {"limits", limits_of_server(server)}});
  }
  return list;
}

// "next": the daemon's setting for the next client, which are the pool's own limits, or a grant's.
Json limits_of(const mps::Pool& pool, const mps::Supervisor& s) {
  Json list = Json::array();
  const auto next = mps::limits_to_set(s);
  for (const auto& limit : pool.planned().limits) {
    const auto read = s.read_back ? mps::memory_limit_of(*s.read_back, limit.uuid) : std::nullopt;
    list.push_back({{"uuid", limit.uuid},
                    {"memoryMiB", limit.client.memory.in_mib()},
                    {"threads", to_string(s.desired.threads)},
                    {"readBackMemory", read ? mps::as_printed(*read) : ""},
                    {"readBackThreads", s.read_back ? mps::as_printed(s.read_back->threads) : ""},
                    {"next",
                     {{"memoryMiB", mps::memory_limit_of(next, limit.uuid).value_or(Bytes{}).in_mib()},
                      {"threads", to_string(next.threads)}}}});
  }
  return list;
}

Json faults_of(const mps::PoolDaemon& pool) {
  Json list = Json::array();
  for (const auto& fault : pool.faults().last()) {
    Json grants = Json::object();
    for (const auto& [pid, grant] : fault.grants) grants[std::to_string(pid)] = grant;
    list.push_back({{"atMs", milliseconds_of(fault.at.time_since_epoch())},
                    {"kind", mps::to_string(fault.kind)},
                    {"culprit", fault.culprit},
                    {"victims", fault.victims},
                    {"server", fault.server},
                    {"grants", std::move(grants)}});
  }
  return list;
}

Json proof_of(const mps::PoolDaemon& pool, MonoTime now) {
  const auto& proof = pool.proof();
  return {{"state", mps::to_string(proof.state)},
          {"reason", proof.reason},
          {"ageMs", proof.ended_at ? milliseconds_of(now - *proof.ended_at) : 0},
          {"pid", pool.proof_pid()},
          {"passed", proof.passed},
          {"failed", proof.failed},
          {"ended",
           {{"clients", proof.clients_ended}, {"servers", proof.servers_ended}, {"daemons", proof.daemons_ended}}}};
}

// Fields that a pool has only once it was opened.
void add_life(Json& json, const mps::PoolDaemon& pool, MonoTime now) {
  json["daemon"] = {{"pid", pool.daemon_pid()}, {"state", mps::daemon_state(pool.supervisor())}};
  json["faults"] = faults_of(pool);
  for (const auto kind : kFaultKinds) json["faultsTotal"][mps::to_string(kind)] = pool.faults().total(kind);
  json["proof"] = proof_of(pool, now);
  json["startNotes"] = pool.start_notes();
}

Json pool_of(const std::string& id, const mps::Pool& pool, const MpsView& view) {
  const auto* daemon = pool.daemon();
  const mps::Supervisor& s = supervisor_of(pool);
  std::vector<std::string> reasons{pool.problem(), daemon != nullptr ? daemon->reason() : s.reason,
                                   pool.capacity_note(), pool.memory() != nullptr ? pool.memory()->problem() : ""};
  std::erase(reasons, "");
  Json json{{"id", id},
            {"devices", pool.planned().devices},
            {"state", pool.state_name()},
            {"sinceMs", daemon != nullptr ? milliseconds_of(view.now - s.since) : 0},
            {"reason", join(reasons, "; ")},
            {"daemonPid", daemon != nullptr ? daemon->daemon_pid() : 0},
            {"servers", servers_of(s)},
            {"clients", {{"live", mps::live_clients(s)}, {"most", pool.planned().max_clients}}},
            {"limits", limits_of(pool, s)},
            {"restarts", s.restarts},
            {"pipe", daemon != nullptr ? daemon->pipe() : ""}};
  if (daemon != nullptr) add_life(json, *daemon, view.now);
  if (const auto* memory = pool.memory(); memory != nullptr)
    json["sharedMemory"] = {{"where", mps::to_string(memory->where())}, {"mount", memory->is_to_be_given()}};
  return json;
}

void put_life(metrics::Page& page, const std::string& id, const mps::PoolDaemon& pool) {
  for (const auto kind : kFaultKinds)
    page.set("tranche_pool_faults_total", {id, mps::to_string(kind)}, pool.faults().total(kind));
  for (const auto status : metrics::kServerStatuses) {
    const auto count = std::ranges::count(pool.supervisor().servers, status, &mps::ServerSeen::status);
    page.set("tranche_pool_servers", {id, status}, count);
  }
  const auto& proof = pool.proof();
  page.set("tranche_pool_proofs_total", {id, "passed"}, proof.passed);
  page.set("tranche_pool_proofs_total", {id, "failed"}, proof.failed);
  page.set("tranche_pool_ended_total", {id, "clients"}, proof.clients_ended);
  page.set("tranche_pool_ended_total", {id, "servers"}, proof.servers_ended);
  page.set("tranche_pool_ended_total", {id, "daemon"}, proof.daemons_ended);
}

PoolReadiness readiness_of(const std::string& id, const mps::Pool& pool) {
  const auto* daemon = pool.daemon();
  const auto& s = supervisor_of(pool);
  const bool has_failed = !pool.problem().empty() || s.restarts > 0 || s.state == mps::State::kBackingOff ||
                          s.state == mps::State::kGivenUp ||
                          (daemon != nullptr && daemon->proof().state == mps::ProofState::kFailed);
  const bool has_reason = pool.problem().empty() && daemon != nullptr;
  return {.id = id,
          .state = std::string(pool.state_name()),
          .begins = !has_failed,
          .reason = has_reason ? daemon->reason() : pool.problem()};
}

}  // namespace

Json mps_document(const MpsView& view) {
  Json pools = Json::array();
  for (const auto& [id, pool] : view.pools.pools()) {
    Json json = pool_of(id, pool, view);
    if (const auto* endpoints = pool.endpoints()) endpoints->describe(json);
    pools.push_back(std::move(json));
  }
  return {{"program", "mps"},
          {"version", kVersion},
          {"pid", view.pid},
          {"driver", {{"state", view.driver_problem.empty() ? "ready" : "waiting"}, {"reason", view.driver_problem}}},
          {"pages", {{"problem", view.pages_problem}}},
          {"loop", {{"worstLatenessMs", view.loop.worst_lateness_ms}, {"cpuProblem", view.loop.cpu_problem}}},
          {"keeper", {{"mostDescriptors", view.pools.keeper_files()}}},
          {"users", view.pools.serves_all_users() ? "all" : "one user at a time"},
          {"config",
           {{"path", view.config.path},
            {"inForce", view.config.last_good ? "last good" : "newest"},
            {"name", view.config.name},
            {"chosenBy", view.config.chosen_by},
            {"hash", view.config.hash},
            {"problems", problems_of(view)}}},
          {"pools", pools}};
}

metrics::Page mps_metrics(const MpsView& view) {
  metrics::Page page;
  page.set("tranche_build_info", {kVersion}, 1);
  page.set("tranche_driver_ready", view.driver_problem.empty() ? 1 : 0);
  page.set("tranche_config_problems", view.config.problems.size() + view.plan_problems.size());
  for (const auto& [id, pool] : view.pools.pools()) {
    const mps::Supervisor& s = supervisor_of(pool);
    page.set_pool_state(id, pool.state_name());
    if (pool.daemon() != nullptr) put_life(page, id, *pool.daemon());
    page.set("tranche_pool_restarts_total", {id}, s.restarts);
    page.set("tranche_pool_clients", {id}, mps::live_clients(s));
    page.set("tranche_pool_clients_most", {id}, pool.planned().max_clients);
    const auto* endpoints = pool.endpoints();
    page.set("tranche_pool_clients_unprotected", {id}, endpoints != nullptr ? endpoints->unprotected() : 0);
    page.set("tranche_pool_clients_dead", {id}, endpoints != nullptr ? endpoints->dead() : 0);
    for (const auto& limit : pool.planned().limits) {
      page.set("tranche_pool_limit_memory_bytes", {id, limit.uuid}, limit.client.memory.value);
      page.set("tranche_pool_limit_threads_percent", {id, limit.uuid}, limit.client.threads.value());
    }
  }
  return page;
}

std::vector<PoolReadiness> pool_readiness(const mps::PoolSet& pools) {
  std::vector<PoolReadiness> found;
  for (const auto& [id, pool] : pools.pools())
    if (pool.is_planned()) found.push_back(readiness_of(id, pool));
  return found;
}

MpsReadiness mps_readiness(const MpsReadinessInputs& inputs) {
  if (inputs.ends) return {false, "it is ending"};
  if (!inputs.driver_problem.empty()) {
    if (inputs.needs_driver) return {false, "waiting for the driver: " + inputs.driver_problem};
    return {true, "idle without a driver, which failOnInitError: false allows: " + inputs.driver_problem};
  }
  const auto error = std::ranges::find(inputs.plan_problems, Severity::kError, &Problem::severity);
  if (error != inputs.plan_problems.end()) return {false, to_string(*error)};
  if (inputs.pools.empty()) return {true, "nothing is shared by MPS"};
  const auto serving = std::ranges::count(inputs.pools, "serving", &PoolReadiness::state);
  std::string line = fmt::format("{} of {} {} serve{}", serving, inputs.pools.size(),
                                 inputs.pools.size() == 1 ? "pool" : "pools", inputs.pools.size() == 1 ? "s" : "");
  bool begin = false;
  for (const auto& pool : inputs.pools) {
    if (pool.state == "serving") continue;
    line += fmt::format("; {} is {}{}{}", pool.id, pool.state, pool.reason.empty() ? "" : ": ", pool.reason);
    begin = begin || pool.begins;
  }
  return {serving > 0 && !begin, std::move(line)};
}

}  // namespace tranche::programs
