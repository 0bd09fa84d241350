#include "agent/mps/status_document.h"

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "metrics/names.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::ordered_json;

Json problems_of(const MpsView& view) {
  Json list = Json::array();
  for (const auto& problem : view.config.problems) list.push_back(to_string(problem));
  for (const auto& problem : view.plan_problems) list.push_back(to_string(problem));
  return list;
}

Json servers_of(const mps::Supervisor& s) {
  Json list = Json::array();
  for (const auto& server : s.servers) {
    list.push_back({{"pid", server.pid}, {"status", server.status}, {"clients", server.clients}});
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

Json limits_of(const Member& member, const mps::Supervisor& s) {
  Json list = Json::array();
  for (const auto& limit : member.planned.limits) {
    list.push_back({{"uuid", limit.uuid},
                    {"memoryMiB", limit.client.memory.in_mib()},
                    {"threads", to_string(s.desired.threads)},
                    {"readBackMemory", read_back_of(s, limit.uuid)},
                    {"readBackThreads", s.read_back ? s.read_back->threads : ""}});
  }
  return list;
}

Json pool_of(const std::string& id, const Member& member, const MpsView& view) {
  static const mps::Supervisor kNothingYet;
  const mps::Supervisor& s = member.pool ? member.pool->supervisor() : kNothingYet;
  const auto since = member.pool ? view.now - s.since : Duration{};
  std::string reason = s.reason;
  if (!member.problem.empty()) reason = member.problem + (reason.empty() ? "" : "; " + reason);
  return {{"id", id},
          {"devices", member.planned.devices},
          {"state", mps::to_string(s.state)},
          {"sinceMs", std::chrono::duration_cast<std::chrono::milliseconds>(since).count()},
          {"reason", reason},
          {"daemonPid", member.pool ? member.pool->daemon_pid() : 0},
          {"servers", servers_of(s)},
          {"limits", limits_of(member, s)},
          {"restarts", s.restarts},
          {"pipe", member.pool ? member.pool->pipe() : ""}};
}

}  // namespace

Json mps_document(const MpsView& view) {
  Json pools = Json::array();
  for (const auto& [id, member] : view.pools.members()) pools.push_back(pool_of(id, member, view));
  return {{"program", "mps"},
          {"version", kVersion},
          {"pid", view.pid},
          {"driver", {{"state", view.driver_problem.empty() ? "ready" : "waiting"}, {"reason", view.driver_problem}}},
          {"users", view.pools.serves_all_users() ? "all" : "one user at a time"},
          {"config",
           {{"path", view.config.path},
            {"inForce", view.config.last_good ? "last good" : "newest"},
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
    std::size_t clients = 0;
    for (const auto& server : s.servers) clients += server.clients.size();
    page.set_pool_state(id, mps::to_string(s.state));
    page.set(metrics::kPoolRestarts, {id}, static_cast<double>(s.restarts));
    page.set(metrics::kPoolClients, {id}, static_cast<double>(clients));
    for (const auto& limit : member.planned.limits) {
      page.set(metrics::kPoolLimitMemory, {id, limit.uuid}, static_cast<double>(limit.client.memory.value));
      page.set(metrics::kPoolLimitThreads, {id, limit.uuid}, limit.client.threads.value());
    }
  }
  return page;
}

}  // namespace tranche::agent
