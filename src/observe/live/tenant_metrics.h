#pragma once
// The figures of each tenant as metrics: who holds what by kubelet's list, its limits by the grants, its use by the
// guard. One row for each container and device, whatever number of slots and grants the container holds. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "guard/figures.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

struct TenantRow {
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string device;
  std::string resource;
  std::uint32_t slots = 0;
  std::optional<Bytes> memory_limit;    // absent: not limited, or not known
  std::optional<Percent> thread_limit;  // the same
  std::optional<guard::Figure> figure;  // absent: the guard does not see it, as without MPS
  std::string grant;                    // the tenant's first, "" without MPS
};
std::vector<TenantRow> tenant_rows(const Snapshot& snapshot, const guard::Figures& figures);

std::string tenant_metrics(const Snapshot& snapshot, const guard::Figures& figures, MonoTime now);

}  // namespace tranche::agent
