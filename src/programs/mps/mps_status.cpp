#include "programs/mps/mps_status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "mps/daemon/room.h"
#include "observe/metrics/names.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::ordered_json;

Json problems_of(const MpsView& view) {
  Json list = Json::array();
  for (const auto& problem : view.config.problems) list.push_back(to_string(problem));
  for (const auto& problem : view.plan_problems) list.push_back(to_string(problem));
  return list;
}

std::int64_t ms_since(MonoTime then, MonoTime now) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - then).count();
}

// The server's limits for future clients, as last reported.
Json limits_of_server(const mps::ServerSeen& server) {
  if (!server.limits) return nullptr;
  Json memory = Json::array();
  for (const auto& [uuid, limit] : server.limits->memory) memory.push_back({{"uuid", uuid}, {"memory", limit}});
  return {{"memory", std::move(memory)}, {"threads", server.limits->threads}};
}

Json servers_of(const mps::Supervisor& s, MonoTime now) {
  Json list = Json::array();
  for (const auto& server : s.servers) {
    list.push_back({{"pid", server.pid},
                    {"status", server.status},
                    {"sinceMs", ms_since(server.since, now)},
                    {"clients", server.clients},
                    {"limits", limits_of_server(server)}});
  }
  return list;
}

std::string read_back_of(const mps::Supervisor& s, const std::string& uuid) {
  if (!s.read_back) return {};
  for (const auto& [device, text] : s.read_back->memory) {
    if (device == uuid) return text;
  }
  return {};
}

// The daemon's setting for the next client: the pool's own limits, or a grant's.
Json next_of(const mps::DaemonLimits& told, const std::string& uuid) {
  const auto found = std::ranges::find(told.memory, uuid, &std::pair<std::string, Bytes>::first);
  return {{"memoryMiB", found == told.memory.end() ? 0 : found->second.in_mib()}, {"threads", to_string(told.threads)}};
}

Json limits_of(const Member& member, const mps::Supervisor& s) {
  Json list = Json::array();
  const auto told = mps::told(s);
  for (const auto& limit : member.planned.limits) {
    list.push_back({{"uuid", limit.uuid},
                    {"memoryMiB", limit.client.memory.in_mib()},
                    {"threads", to_string(s.desired.threads)},
                    {"readBackMemory", read_back_of(s, limit.uuid)},
                    {"readBackThreads", s.read_back ? s.read_back->threads : ""},
                    {"next", next_of(told, limit.uuid)}});
  }
  return list;
}

Json faults_of(const host::Pool& pool) {
  Json list = Json::array();
  for (const auto& fault : pool.faults()) {
    const auto at = std::chrono::duration_cast<std::chrono::milliseconds>(fault.at.time_since_epoch());
    list.push_back({{"atMs", at.count()},
                    {"kind", mps::to_string(fault.kind)},
                    {"culprit", fault.culprit},
                    {"victims", fault.victims},
                    {"server", fault.server}});
  }
  return list;
}

Json faults_total_of(const host::Pool& pool) {
  const auto& counters = pool.counters();
  return {
      {"fatal", counters.fatal_faults}, {"exception", counters.exceptions}, {"unclean-exit", counters.unclean_exits}};
}

Json proof_of(const host::Pool& pool, MonoTime now) {
  const auto& proof = pool.proof();
  return {{"state", mps::to_string(proof.state)},
          {"reason", proof.reason},
          {"ageMs", proof.ended_at ? ms_since(*proof.ended_at, now) : 0},
          {"pid", pool.proof_pid()},
          {"passed", proof.passed},
          {"failed", proof.failed},
          {"ended",
           {{"clients", proof.clients_ended}, {"servers", proof.servers_ended}, {"daemons", proof.daemons_ended}}}};
}

// Fields that a pool has only once it was opened.
void add_life(Json& json, const host::Pool& pool, MonoTime now) {
  json["daemon"] = {{"pid", pool.daemon_pid()}, {"state", mps::daemon_state(pool.supervisor())}};
  json["faults"] = faults_of(pool);
  json["faultsTotal"] = faults_total_of(pool);
  json["proof"] = proof_of(pool, now);
  json["startNotes"] = pool.start_notes();
}

Json pool_of(const std::string& id, const Member& member, const MpsView& view) {
  static const mps::Supervisor kNothingYet;
  const mps::Supervisor& s = member.pool ? member.pool->supervisor() : kNothingYet;
  const auto since = member.pool ? view.now - s.since : Duration{};
  std::string reason = member.pool ? member.pool->reason() : s.reason;
  const std::uint32_t live = mps::live_clients(s);
  const std::uint32_t most = member.planned.max_clients;
  if (const auto note = view.pools.room_note(member); !note.empty()) reason += (reason.empty() ? "" : "; ") + note;
  const auto tier = view.pools.tier_of(member);
  if (!tier.reason.empty()) reason += (reason.empty() ? "" : "; ") + tier.reason;
  if (const auto memory = member.memory ? member.memory->problem() : ""; !memory.empty())
    reason += (reason.empty() ? "" : "; ") + memory;
  if (!member.problem.empty()) reason = member.problem + (reason.empty() ? "" : "; " + reason);
  Json json{{"id", id},
            {"devices", member.planned.devices},
            {"state", member.pool ? member.pool->state_word() : mps::to_string(s.state)},
            {"sinceMs", std::chrono::duration_cast<std::chrono::milliseconds>(since).count()},
            {"reason", reason},
            {"daemonPid", member.pool ? member.pool->daemon_pid() : 0},
            {"servers", servers_of(s, view.now)},
            {"clients", {{"live", live}, {"most", most}}},
            {"tier", mps::to_string(tier.tier)},
            {"notEnforced", mps::not_enforced(tier.tier)},
            {"limits", limits_of(member, s)},
            {"restarts", s.restarts},
            {"pipe", member.pool ? member.pool->pipe() : ""}};
  if (member.pool) add_life(json, *member.pool, view.now);
  if (member.memory)
    json["sharedMemory"] = {{"where", mps::to_string(member.memory->where())},
                            {"mount", member.memory->is_to_be_given()}};
  return json;
}

void put_life(metrics::Page& page, const std::string& id, const host::Pool& pool) {
  const auto& counters = pool.counters();
  page.set(metrics::kPoolFaults, {id, "fatal"}, static_cast<double>(counters.fatal_faults));
  page.set(metrics::kPoolFaults, {id, "exception"}, static_cast<double>(counters.exceptions));
  page.set(metrics::kPoolFaults, {id, "unclean-exit"}, static_cast<double>(counters.unclean_exits));
  for (const auto status : metrics::kServerStatuses) {
    const auto count = std::ranges::count(pool.supervisor().servers, status, &mps::ServerSeen::status);
    page.set(metrics::kPoolServers, {id, status}, static_cast<double>(count));
  }
  const auto& proof = pool.proof();
  page.set(metrics::kPoolProofs, {id, "passed"}, static_cast<double>(proof.passed));
  page.set(metrics::kPoolProofs, {id, "failed"}, static_cast<double>(proof.failed));
  page.set(metrics::kPoolEnded, {id, "clients"}, static_cast<double>(proof.clients_ended));
  page.set(metrics::kPoolEnded, {id, "servers"}, static_cast<double>(proof.servers_ended));
  page.set(metrics::kPoolEnded, {id, "daemon"}, static_cast<double>(proof.daemons_ended));
}

}  // namespace

Json mps_document(const MpsView& view) {
  Json pools = Json::array();
  for (const auto& [id, member] : view.pools.members()) {
    Json pool = pool_of(id, member, view);
    view.endpoints.describe(id, pool);
    pools.push_back(std::move(pool));
  }
  return {{"program", "mps"},
          {"version", kVersion},
          {"pid", view.pid},
          {"driver", {{"state", view.driver_problem.empty() ? "ready" : "waiting"}, {"reason", view.driver_problem}}},
          {"pages", {{"problem", view.pages_problem}}},
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
  page.set(metrics::kBuildInfo, {kVersion}, 1);
  page.set(metrics::kDriverReady, view.driver_problem.empty() ? 1 : 0);
  page.set(metrics::kConfigProblems, static_cast<double>(view.config.problems.size() + view.plan_problems.size()));
  for (const auto& [id, member] : view.pools.members()) {
    static const mps::Supervisor kNothingYet;
    const mps::Supervisor& s = member.pool ? member.pool->supervisor() : kNothingYet;
    page.set_pool_state(id, member.pool ? member.pool->state_word() : mps::to_string(s.state));
    if (member.pool) put_life(page, id, *member.pool);
    page.set(metrics::kPoolTier, {id, std::string(mps::to_string(view.pools.tier_of(member).tier))}, 1);
    page.set(metrics::kPoolRestarts, {id}, static_cast<double>(s.restarts));
    page.set(metrics::kPoolClients, {id}, static_cast<double>(mps::live_clients(s)));
    page.set(metrics::kPoolClientsMost, {id}, static_cast<double>(member.planned.max_clients));
    for (const auto& limit : member.planned.limits) {
      page.set(metrics::kPoolLimitMemory, {id, limit.uuid}, static_cast<double>(limit.client.memory.value));
      page.set(metrics::kPoolLimitThreads, {id, limit.uuid}, limit.client.threads.value());
    }
  }
  return page;
}

}  // namespace tranche::agent
