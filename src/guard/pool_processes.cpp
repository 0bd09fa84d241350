#include "guard/pool_processes.h"

namespace tranche::guard {

std::map<std::string, PoolProcesses> pool_processes(const agent::PoolReports& reports) {
  std::map<std::string, PoolProcesses> pools;
  for (const auto& [id, report] : reports.pools) {
    PoolProcesses& pool = pools[id];
    pool.state = report.state;
    for (const auto pid : {reports.pid, report.daemon_pid, report.proof.pid})
      if (pid > 0) pool.own.insert(static_cast<std::uint32_t>(pid));
    for (const auto& [pid, status] : report.servers) pool.own.insert(static_cast<std::uint32_t>(pid));
    for (const auto& endpoint : report.endpoints) {
      for (const auto pid : endpoint.clients) pool.grant_of[static_cast<std::uint32_t>(pid)] = endpoint.grant;
      for (const auto pid : endpoint.remnants) pool.remnants[static_cast<std::uint32_t>(pid)] = endpoint.grant;
      for (const auto pid : endpoint.dead) pool.dead[static_cast<std::uint32_t>(pid)] = endpoint.grant;
      if (endpoint.admitting || endpoint.reason.starts_with(kOurReason))
        pool.endpoints[endpoint.grant] = endpoint.admitting;
    }
  }
  return pools;
}

}  // namespace tranche::guard
