#include "guard/pool_processes.h"

#include <algorithm>
#include <array>

namespace tranche::guard {
std::map<std::string, PoolProcesses> pool_processes(const mps::PoolReports& reports) {
  std::map<std::string, PoolProcesses> pools;
  for (const auto& [id, report] : reports.pools) {
    PoolProcesses& pool = pools[id];
    pool.state = report.state;
    for (const auto pid : {reports.pid, report.daemon_pid, report.proof.pid})
      if (pid > 0) pool.own.insert(static_cast<std::uint32_t>(pid));
    for (const auto pid : report.servers) pool.own.insert(static_cast<std::uint32_t>(pid));
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

bool has_host_daemons_name(std::string_view program) {
  constexpr std::array<std::string_view, 6> kNames{"nvidia-persistenced", "nv-hostengine",        "dcgm",
                                                   "nv-fabricmanager",    "nvidia-fabricmanager", "nvidia-cuda-mps-"};
  const auto name = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  return std::ranges::any_of(kNames, [name](std::string_view known) { return name.starts_with(known); });
}

}  // namespace tranche::guard
