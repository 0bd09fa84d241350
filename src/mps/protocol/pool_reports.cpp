#include "mps/protocol/pool_reports.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "mps/protocol/requests.h"

namespace tranche::mps {
namespace {

using Json = nlohmann::json;

std::vector<int> pids_at(const Json& object, std::string_view key) {
  std::vector<int> pids;
  for (const auto& value : list_at(object, key))
    if (const auto pid = pid_of(value); pid != 0) pids.push_back(pid);
  return pids;
}

std::map<std::string, std::uint64_t> counts_at(const Json& object, std::string_view key) {
  std::map<std::string, std::uint64_t> counts;
  const Json& members = map_at(object, key);
  for (const auto& [name, value] : members.items())
    if (number_of(value)) counts[name] = count_at(members, name);
  return counts;
}

// All of them if valid, otherwise none.
std::optional<GrantLimits> limits_at(const Json& endpoint) {
  auto limits = read_limits(member_at(endpoint, "limits"));
  return limits ? std::optional(*std::move(limits)) : std::nullopt;
}

std::vector<ClientProtection> protection_at(const Json& endpoint) {
  std::vector<ClientProtection> clients;
  for (const Json& client : list_at(endpoint, "protection"))
    if (const auto pid = pid_at(client, "pid"); pid > 0)
      clients.push_back({pid, text_at(client, "protected"), text_at(client, "why")});
  return clients;
}

PoolReport read_pool(const Json& object) {
  PoolReport pool;
  pool.id = text_at(object, "id");
  pool.state = text_at(object, "state");
  pool.devices = texts_at(object, "devices");
  pool.reason = text_at(object, "reason");
  pool.daemon_pid = pid_at(object, "daemonPid");
  pool.restarts = count_at(object, "restarts");
  for (const Json& server : list_at(object, "servers")) {
    const auto clients = pids_at(server, "clients");
    pool.clients.insert(pool.clients.end(), clients.begin(), clients.end());
    if (const auto pid = pid_at(server, "pid"); pid > 0) pool.servers.push_back(pid);
  }
  pool.endpoint = text_at(object, "endpoint");
  pool.endpoint_reason = text_at(object, "endpointReason");
  std::vector<EndpointReport> endpoints;
  for (const Json& endpoint : list_at(object, "endpoints")) {
    if (text_at(endpoint, "grant").empty()) continue;
    endpoints.push_back({text_at(endpoint, "grant"), pids_at(endpoint, "clients"), limits_at(endpoint),
                         text_at(endpoint, "refusedWhy"), count_at(endpoint, "limitsLifted"),
                         count_at(endpoint, "made"), pids_at(endpoint, "remnants"), protection_at(endpoint),
                         pids_at(endpoint, "dead")});
  }
  pool.endpoints = std::move(endpoints);
  for (const Json& fault : list_at(object, "faults")) {
    if (!fault.is_object()) continue;
    auto& read = pool.faults.emplace_back(number_at(fault, "atMs").value_or(0), text_at(fault, "kind"),
                                          pid_at(fault, "culprit"), pids_at(fault, "victims"));
    for (const auto& [pid, grant] : member_at(fault, "grants").items())
      if (const auto known = parse_unsigned(pid); known && grant.is_string())
        read.grants[static_cast<int>(*known)] = grant;
  }
  pool.faults_total = counts_at(object, "faultsTotal");
  const Json& proof = member_at(object, "proof");
  pool.proof = {text_at(proof, "state"), text_at(proof, "reason"), pid_at(proof, "pid")};
  pool.shared_memory = truth_at(member_at(object, "sharedMemory"), "mount");
  return pool;
}

}  // namespace

Result<PoolReports> parse_pool_reports(std::string_view json_line) {
  const Json document = json_of(json_line);
  if (!document.is_object())
    return fail(Kind::kInvalid, "tranche mps answered with something that is not a JSON object");
  const Json& pools = member_at(document, "pools");
  if (!pools.is_array()) return fail(Kind::kInvalid, "tranche mps answered without a list of pools");
  PoolReports reports;
  reports.connected = true;
  reports.pid = pid_at(document, "pid");
  reports.keeper_files = count_at(member_at(document, "keeper"), "mostDescriptors");
  reports.pages_problem = text_at(member_at(document, "pages"), "problem");
  reports.cpu_problem = text_at(member_at(document, "loop"), "cpuProblem");
  for (const auto& entry : pools) {
    if (!entry.is_object()) return fail(Kind::kInvalid, "tranche mps answered with a pool that is not an object");
    PoolReport pool = read_pool(entry);
    if (pool.id.empty() || pool.state.empty())
      return fail(Kind::kInvalid, "tranche mps answered with a pool without id or state");
    std::string id = pool.id;
    reports.pools[std::move(id)] = std::move(pool);
  }
  return reports;
}

const EndpointReport* find_endpoint(const PoolReport& pool, const std::string& grant) {
  const auto found = std::ranges::find(pool.endpoints, grant, &EndpointReport::grant);
  return found == pool.endpoints.end() ? nullptr : &*found;
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
      const bool daemon_serves = it->second.state == "proving" || it->second.state == "wedged";
      faults[pool.id] = fmt::format("the MPS {} is {}{}{}", daemon_serves ? "pool" : "control daemon", it->second.state,
                                    it->second.reason.empty() ? "" : ": ", it->second.reason);
    }
  }
  return faults;
}

void put_shared_memory(const grants::Paths& paths, const PoolReports& reports, grants::Grant& grant) {
  const auto report = reports.pools.find(grant.pool);
  if (report == reports.pools.end() || !report->second.shared_memory) return;
  grant.mounts.push_back({"/dev/shm", paths.mps_root + "/" + kSharedMemoryFolder, false});
}

}  // namespace tranche::mps
