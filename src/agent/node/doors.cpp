#include "agent/node/doors.h"

#include <unistd.h>

#include <algorithm>

#include "agent/pools/mps_link.h"
#include "host/status/status_socket.h"
#include "mps/partitions.h"
#include "mps/shared_memory.h"
#include "mps/tier.h"
#include "plan/slot_id.h"

namespace tranche::agent {
namespace {

constexpr Duration kOpenDeadline = std::chrono::seconds(1);

bool is_open(const allocate::Paths& paths, const PoolReports& reports, const allocate::Grant& grant,
             const DoorLimits& limits) {
  const auto report = reports.pools.find(grant.pool);
  if (!reports.connected || report == reports.pools.end()) return false;
  if (report->second.tier == mps::to_string(mps::Tier::kStatic)) return false;
  const auto& doors = report->second.doors;
  const auto door = std::ranges::find(doors, grant.id, &DoorReport::grant);
  return door != doors.end() && door->limits == limits &&
         ::access((paths.door(grant.pool, grant.id) + "/control").c_str(), F_OK) == 0;
}

// The n of "<uuid>::<n>"; a device that is not divided is its own slot 0. Those of several devices say nothing.
std::vector<std::uint32_t> numbers_of(const allocate::Grant& grant) {
  std::vector<std::uint32_t> numbers;
  if (grant.devices.size() > 1) return numbers;
  for (const auto& slot : grant.slots) {
    const auto id = plan::read_slot_id(slot);
    numbers.push_back(id ? id->ordinal.value_or(0) : 0);
  }
  return numbers;
}

}  // namespace

DoorLimits door_limits(const allocate::Grant& grant) {
  DoorLimits limits;
  for (const auto& device : grant.devices)
    limits.push_back({device.uuid, device.limits.memory.in_mib(), device.limits.threads.hundredths});
  return limits;
}

Status make_door(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant) {
  const DoorLimits limits = door_limits(grant);
  if (is_open(paths, reports, grant, limits)) return {};
  const auto request = open_door_request(grant.pool, grant.id, numbers_of(grant), limits);
  const auto answered = host::ask(paths.mps_root + "/mps.sock", request, kOpenDeadline);
  const auto opened = answered ? read_mps_reply(*answered) : answered;
  if (!opened)
    return std::unexpected(within(opened.error(), "cannot open the grant's door to MPS; try again when it serves"));
  TRY(const auto partition, read_partition(*opened, grant.devices.front().uuid));
  if (!partition.empty()) grant.envs[mps::kPartitionVariable] = partition;
  return {};
}

void put_shared_memory(const allocate::Paths& paths, const PoolReports& reports, allocate::Grant& grant) {
  const auto report = reports.pools.find(grant.pool);
  if (report == reports.pools.end() || !report->second.shared_memory) return;
  grant.mounts.push_back({"/dev/shm", paths.mps_root + "/" + mps::kSharedMemoryFolder, false});
}

}  // namespace tranche::agent
