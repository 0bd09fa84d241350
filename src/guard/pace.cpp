#include "guard/pace.h"

#include <algorithm>
#include <utility>

namespace tranche::guard {
namespace {

// The time in which the fastest program allocates that much.
Duration time_to_allocate(std::uint64_t bytes) {
  constexpr std::uint64_t kNanoseconds = 1'000'000'000;
  constexpr std::uint64_t kBytesPerMicrosecond = kFastestGrowth / (kNanoseconds / 1000);
  return std::chrono::microseconds(bytes / kBytesPerMicrosecond);
}

// 4, 8, 16 … ms: an interval that changes at every sample would be sent to the driver's thread every time.
Duration in_steps(Duration time, Duration most) {
  Duration step = kFastPace;
  while (step * 2 <= time && step * 2 <= most) step *= 2;
  return time >= most ? most : std::min(step, most);
}

// Under the other policies no process is stopped, however early the crossing is seen.
bool ends_processes(const Limit& limit) {
  return limit.policy == config::GuardMemory::kTerminateNewest || limit.policy == config::GuardMemory::kTerminateAll;
}

bool has_new_pid(const std::set<pid_t>& pids, const std::set<pid_t>& before) {
  return !std::ranges::includes(before, pids);
}

}  // namespace

void hasten(Pace& pace, const Device& device, const std::map<GrantOnDevice, Limit>& limits,
            const std::map<pid_t, std::string>& clients, PaceMemory& memory, Duration interval, MonoTime now) {
  std::map<std::string, PaceMemory::Grant> grants;
  for (const Process& process : device.processes) {
    if (process.ours || process.grant.empty()) continue;
    PaceMemory::Grant& grant = grants[process.grant];
    grant.sum = grant.sum + process.memory;
    grant.listed.insert(process.id.pid);
  }
  for (const auto& [pid, grant] : clients) grants[grant].connected.insert(pid);
  std::erase_if(memory.grants, [&](const auto& entry) {
    return entry.first.second == device.uuid && !grants.contains(entry.first.first);
  });
  for (auto& [name, grant] : grants) {
    const auto limit = limits.find({name, device.uuid});
    if (limit == limits.end() || !ends_processes(limit->second)) continue;
    const auto [it, fresh] = memory.grants.try_emplace({name, device.uuid});
    PaceMemory::Grant& before = it->second;
    const bool grew = grant.sum.value > before.sum.value && grant.sum.value - before.sum.value > kRounding.value;
    if (fresh || grew || has_new_pid(grant.listed, before.listed) || has_new_pid(grant.connected, before.connected))
      before.moved = now;
    // Small growth adds up: it is measured from where it began.
    if (grew || grant.sum < before.sum || fresh) before.sum = grant.sum;
    before.listed = std::move(grant.listed);
    before.connected = std::move(grant.connected);
    const std::uint64_t most = limit->second.memory.value + kRounding.value;
    const Duration left = time_to_allocate(most - std::min(most, grant.sum.value));
    if (left >= interval) continue;  // it cannot cross before the next sample
    if (now - before.moved >= kMovesFor) {
      pace.glance = kGlance;
    } else {
      pace.every = std::min(pace.every, in_steps(left, interval));
      pace.look_again = std::min(pace.look_again, before.moved + kMovesFor);
    }
  }
  if (pace.glance >= pace.every) pace.glance = {};
}

}  // namespace tranche::guard
