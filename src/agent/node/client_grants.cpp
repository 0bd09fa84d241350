#include "agent/node/client_grants.h"

#include <fmt/format.h>

#include "allocate/grant.h"
#include "guard/attribution.h"
#include "host/files/files.h"

namespace tranche::agent {

std::map<std::uint32_t, std::string> grants_of_clients(const std::vector<host::GpuUse>& use,
                                                       const std::map<std::uint32_t, std::string>& known) {
  std::map<std::uint32_t, std::string> grants;
  for (const auto& gpu : use) {
    for (const auto& process : gpu.processes) {
      if (!process.mps_client) continue;
      if (const auto it = known.find(process.pid); it != known.end()) {
        grants.insert(*it);
      } else if (const auto mounts = host::read_file(fmt::format("/proc/{}/mountinfo", process.pid))) {
        if (const auto door = guard::door_of_mountinfo(*mounts, allocate::kDoorInContainer))
          grants[process.pid] = door->grant;
      }
    }
  }
  return grants;
}

}  // namespace tranche::agent
