#include "mps/protocol/put_shared_memory.h"

namespace tranche::agent {

void put_shared_memory(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant) {
  const auto report = reports.pools.find(grant.pool);
  if (report == reports.pools.end() || !report->second.shared_memory) return;
  grant.mounts.push_back({"/dev/shm", paths.mps_root + "/" + mps::kSharedMemoryFolder, false});
}

}  // namespace tranche::agent
