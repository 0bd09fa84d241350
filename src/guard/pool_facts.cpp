#include "guard/pool_facts.h"

namespace tranche::guard {

std::map<std::string, PoolFacts> pool_facts(const agent::PoolReports& reports) {
  std::map<std::string, PoolFacts> pools;
  for (const auto& [id, report] : reports.pools) {
    PoolFacts& pool = pools[id];
    pool.state = report.state;
    for (const auto pid : {reports.pid, report.daemon_pid, report.proof.pid})
      if (pid > 0) pool.own.insert(static_cast<std::uint32_t>(pid));
    for (const auto& [pid, status] : report.servers) pool.own.insert(static_cast<std::uint32_t>(pid));
    for (const auto& endpoint : report.endpoints) {
      for (const auto pid : endpoint.clients) pool.grant_of[static_cast<std::uint32_t>(pid)] = endpoint.grant;
      if (endpoint.admitting || endpoint.reason.starts_with(kOurReason))
        pool.endpoints[endpoint.grant] = endpoint.admitting;
    }
  }
  return pools;
}

}  // namespace tranche::guard
