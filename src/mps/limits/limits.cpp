#include "mps/limits/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr Percent kLeastThreads{
    10};  // the getter prints one decimal; below 6 percent every GPU uses its minimum of SMs

// The getter rounds percentages to one decimal; limits that really differ are at least one percent apart.
constexpr std::uint32_t kPercentTolerance = 10;  // hundredths

}  // namespace

std::optional<Bytes> amount_of(std::string_view text) {
  const auto digits = text.find_first_not_of("0123456789");
  const auto unit = digits == text.npos ? std::string_view() : text.substr(digits);
  const unsigned shift = unit == "G" || unit == "GB" ? 30 : unit == "M" || unit == "MB" ? 20 : 0;
  const auto number = parse_unsigned(text.substr(0, digits)).value_or(0);
  if (shift == 0 || number == 0 || number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return Bytes{number << shift};
}

std::string as_printed(Bytes limit) {
  return limit >= gib(1) ? fmt::format("{}G", limit.value >> 30) : fmt::format("{}M", limit.in_mib());
}

std::string as_printed(Percent threads) {
  return fmt::format("{}.{}", threads.hundredths / 100, threads.hundredths % 100 / 10);
}

DaemonLimits limits_of(const plan::PlannedPool& pool) {
  DaemonLimits limits;
  Percent largest;
  for (const auto& [uuid, client] : pool.limits) {
    limits.memory.emplace_back(uuid, client.memory.in_mib() > 0 ? mib(client.memory.in_mib()) : kNoMemoryLimit);
    largest = std::max(largest, client.threads == Percent{} ? Percent::whole(100) : client.threads);
  }
  if (largest != Percent{}) limits.threads = largest;
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

std::string capacity_note(std::uint32_t live, std::uint32_t most) {
  if (most == 0 || std::uint64_t{live} * 10 < std::uint64_t{most} * 9) return {};
  if (live >= most)
    return fmt::format("all {} clients that MPS serves here are connected: the next CUDA process fails to start", most);
  return fmt::format("{} of at most {} clients are connected: CUDA processes beyond that fail to start", live, most);
}

}  // namespace tranche::mps
