#include "mps/limits/limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::mps {
namespace {

constexpr Percent kLeastThreads{
    10};  // the getter prints one decimal; below 6 percent every GPU uses its minimum of SMs

// The getter rounds percentages to one decimal; limits that really differ are at least one percent apart.
constexpr std::uint32_t kPercentTolerance = 10;  // hundredths

}  // namespace

std::string as_printed(Bytes limit) {
  return limit >= gib(1) ? fmt::format("{}G", limit.value >> 30) : fmt::format("{}M", limit.in_mib());
}

std::string as_printed(Percent threads) {
  return fmt::format("{}.{}", threads.hundredths / 100, threads.hundredths % 100 / 10);
}

DaemonLimits limits_of(const plan::PlannedPool& pool) {
  DaemonLimits limits;
  Percent largest;
  bool unlimited = pool.limits.empty();
  for (const auto& [uuid, client] : pool.limits) {
    if (client.memory.in_mib() > 0) limits.memory.emplace_back(uuid, mib(client.memory.in_mib()));
    if (client.threads == Percent{}) unlimited = true;
    largest = std::max(largest, client.threads);
  }
  if (!unlimited) limits.threads = largest;
  return limits;
}

std::optional<Bytes> memory_limit_of(const DaemonLimits& limits, const std::string& uuid) {
  const auto found = std::ranges::find(limits.memory, uuid, &DeviceMemory::first);
  return found == limits.memory.end() ? std::nullopt : std::optional(found->second);
}

std::string to_string(const DaemonLimits& limits) {
  std::string text;
  for (const auto& [uuid, memory] : limits.memory) text += fmt::format("{}={}M ", uuid, memory.in_mib());
  return text + to_string(limits.threads) + " %";
}

std::string disagreement(const DaemonLimits& expected, const DaemonLimits& read) {
  for (const auto& [uuid, memory] : expected.memory) {
    const auto holds = memory_limit_of(read, uuid);
    if (!holds) return fmt::format("the memory limit of {} was not read back", uuid);
    if (as_printed(*holds) != as_printed(memory))
      return fmt::format("the memory limit of {} was set to {}M and reads back as \"{}\" (expected {})", uuid,
                         memory.in_mib(), as_printed(*holds), as_printed(memory));
  }
  const auto wanted = expected.threads.hundredths, holds = read.threads.hundredths;
  if (holds + kPercentTolerance >= wanted && holds <= wanted + kPercentTolerance) return {};
  return fmt::format("the thread percentage was set to {} and is {}", to_string(expected.threads),
                     to_string(read.threads));
}

Result<DaemonLimits> limits_for(const GrantLimits& grant, std::span<const std::string> pool_devices) {
  DaemonLimits limits;
  std::vector<Bytes> held;  // in the pool's order, in which a client counts them
  for (const auto& uuid : pool_devices) {
    const auto one = std::ranges::find(grant, uuid, &GrantLimit::uuid);
    if (one == grant.end()) continue;
    held.push_back(one->memory.value == 0 ? kNoMemoryLimit : one->memory);
    if (one->threads != Percent{}) limits.threads = std::min(limits.threads, std::max(one->threads, kLeastThreads));
  }
  if (held.empty()) return fail(Kind::kInvalid, "none of its devices is one of this pool", "a grant's limits");
  const Bytes least = std::ranges::min(held);
  for (std::size_t at = 0; at < pool_devices.size(); ++at)
    limits.memory.emplace_back(pool_devices[at], at < held.size() ? held[at] : least);
  return limits;
}

DaemonLimits limits_for(const DaemonLimits& own, std::span<const std::string> pool_devices) {
  DaemonLimits limits{{}, own.threads};
  for (const auto& uuid : pool_devices)
    limits.memory.emplace_back(uuid, memory_limit_of(own, uuid).value_or(kNoMemoryLimit));
  return limits;
}

std::string capacity_note(std::uint32_t live, std::uint32_t most) {
  if (most == 0 || std::uint64_t{live} * 10 < std::uint64_t{most} * 9) return {};
  if (live >= most)
    return fmt::format("all {} clients that MPS serves here are connected: the next CUDA process fails to start", most);
  return fmt::format("{} of at most {} clients are connected: CUDA processes beyond that fail to start", live, most);
}

}  // namespace tranche::mps
