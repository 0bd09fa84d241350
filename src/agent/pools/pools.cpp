#include "agent/pools/pools.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tranche::agent {
namespace {

using Json = nlohmann::json;

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::int64_t number_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

PoolReport read_pool(const Json& object) {
  PoolReport pool{text_at(object, "id"),
                  text_at(object, "state"),
                  text_at(object, "reason"),
                  number_at(object, "daemonPid"),
                  {},
                  0};
  pool.restarts = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_at(object, "restarts")));
  if (const auto servers = object.find("servers"); servers != object.end() && servers->is_array()) {
    for (const auto& server : *servers) {
      if (!server.is_object()) continue;
      const auto clients = server.find("clients");
      if (clients == server.end() || !clients->is_array()) continue;
      for (const auto& pid : *clients) {
        if (pid.is_number_integer()) pool.clients.push_back(pid.get<std::int64_t>());
      }
    }
  }
  return pool;
}

}  // namespace

Result<std::map<std::string, PoolReport>> parse_pool_reports(std::string_view json_line) {
  const Json document = Json::parse(json_line, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object())
    return fail(Kind::kInvalid, "tranche mps answered with something that is not a JSON object");
  const auto pools = document.find("pools");
  if (pools == document.end() || !pools->is_array())
    return fail(Kind::kInvalid, "tranche mps answered without a list of pools");
  std::map<std::string, PoolReport> reports;
  for (const auto& entry : *pools) {
    if (!entry.is_object()) return fail(Kind::kInvalid, "tranche mps answered with a pool that is not an object");
    PoolReport pool = read_pool(entry);
    if (pool.id.empty() || pool.state.empty())
      return fail(Kind::kInvalid, "tranche mps answered with a pool without id or state");
    std::string id = pool.id;
    reports[std::move(id)] = std::move(pool);
  }
  return reports;
}

std::map<std::string, std::string> pool_faults(const plan::Plan& plan, const PoolReports& reports) {
  std::map<std::string, std::string> faults;
  for (const auto& pool : plan.pools) {
    if (!reports.connected) {
      faults[pool.id] = reports.problem.empty() ? "tranche mps is not running" : reports.problem;
      continue;
    }
    const auto it = reports.pools.find(pool.id);
    if (it == reports.pools.end()) {
      faults[pool.id] = "tranche mps does not serve this pool (yet): it may run with another configuration";
    } else if (it->second.state != "serving") {
      faults[pool.id] = fmt::format("the MPS control daemon is {}{}{}", it->second.state,
                                    it->second.reason.empty() ? "" : ": ", it->second.reason);
    }
  }
  return faults;
}

}  // namespace tranche::agent
