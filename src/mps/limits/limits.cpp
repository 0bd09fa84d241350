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

// --- the limits that a tenant sets for itself ------------------------------------------------------------------------

namespace {

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Fractions count (measured); digits beyond those we keep are dropped.
std::optional<Percent> threads_of(std::string_view text) {
  if (const auto point = text.find('.'); point != std::string_view::npos) {
    if (!all_digits(text.substr(point + 1))) return std::nullopt;
    text = text.substr(0, std::min(text.size(), point + 3));
    if (text.ends_with('.')) text.remove_suffix(1);
  }
  const auto percent = parse_percent(text);
  if (!percent || percent->hundredths == 0 || *percent > Percent::whole(100)) return std::nullopt;
  return *percent;
}

// Whether the driver finds no device for this key. The beginning of a UUID in either case, and blanks around a number,
// may be valid: not measured, so they count as found.
bool names_none(std::string_view key, const std::vector<std::string>& visible) {
  if (visible.empty()) return key.empty();
  constexpr std::string_view kKind = "GPU-";
  const auto begins_with_key = [key](const std::string& uuid) {
    return same_in_any_case(key, std::string_view(uuid).substr(0, key.size()));
  };
  if (key.size() > kKind.size() && std::ranges::any_of(visible, begins_with_key)) return false;
  const auto number = trimmed(key);
  if (number.starts_with('-') || number.starts_with('+')) return false;
  const auto place = parse_unsigned(number);
  return !place || *place >= visible.size();
}

// Whether the driver reads no amount: no number at the front, or zero. A negative number keeps the limit (measured).
bool is_no_amount(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('-') || text.starts_with('+')) return false;
  const auto digits = text.substr(0, text.find_first_not_of("0123456789"));
  return std::ranges::all_of(digits, [](char c) { return c == '0'; });
}

bool lifts(std::string_view value, const std::vector<std::string>& visible) {
  if (value.empty()) return false;                   // same as unset (measured)
  if (value.ends_with(',')) value.remove_suffix(1);  // harmless (measured)
  return std::ranges::any_of(split(value, ','), [&](std::string_view entry) {
    const auto equals = entry.find('=');
    return equals == std::string_view::npos || names_none(entry.substr(0, equals), visible) ||
           is_no_amount(entry.substr(equals + 1));
  });
}

// A key is the UUID of a device that the client sees, or its ordinal.
const DeviceMemory* device_of(std::string_view key, const DaemonLimits& granted) {
  const auto found = std::ranges::find(granted.memory, key, &DeviceMemory::first);
  if (found != granted.memory.end()) return &*found;
  const auto place = parse_unsigned(key);
  return place && *place < granted.memory.size() ? &granted.memory[*place] : nullptr;
}

std::string example(const DaemonLimits& granted) {
  return granted.memory.empty() ? std::string("0=4096M") : granted.memory.front().first + "=4096M";
}

std::optional<TenantRemark> on_threads(const std::string& text, Percent granted) {
  if (text.empty()) return std::nullopt;
  const auto threads = threads_of(text);
  if (!threads) {
    return TenantRemark{
        false, fmt::format("{}={} is no percentage above 0 up to 100, so the driver passes it over and the container "
                           "has the {} % of its grant; write a number such as 12.5",
                           plan::kThreadPercentageVariable, in_quotes(text), to_string(granted))};
  }
  if (*threads <= granted) return std::nullopt;
  return TenantRemark{
      true, fmt::format("{}={} is more than the {} % that the container was granted and has no effect; "
                        "ask for more slots, or write at most {}",
                        plan::kThreadPercentageVariable, in_quotes(text), to_string(granted), to_string(granted))};
}

std::optional<TenantRemark> on_memory(std::string_view text, const DaemonLimits& granted) {
  if (text.empty()) return std::nullopt;  // same as unset (measured)
  auto entries = text;
  if (entries.ends_with(',')) entries.remove_suffix(1);  // harmless (measured)
  const DeviceMemory* below = nullptr;                   // the first of which it is more than was granted
  for (const auto entry : split(entries, ',')) {
    const auto equals = entry.find('=');
    const auto* device = equals == entry.npos ? nullptr : device_of(entry.substr(0, equals), granted);
    const auto amount = device == nullptr ? std::nullopt : amount_of(entry.substr(equals + 1));
    if (!amount) {
      return TenantRemark{
          false,
          fmt::format("{}={} is not understood by the driver, which then holds the process to no memory limit: the "
                      "relay refuses the process, or the guard ends it when the container holds more than its grant; "
                      "write device=amount for devices of the container, such as {}",
                      plan::kPinnedLimitVariable, in_quotes(text), example(granted))};
    }
    if (below == nullptr && device->second.value != 0 && *amount > device->second) below = device;
  }
  if (below == nullptr) return std::nullopt;
  return TenantRemark{true, fmt::format("{}={} is more than the {} MiB of {} that the container was granted and has no "
                                        "effect there; ask for more slots, or write at most {}M",
                                        plan::kPinnedLimitVariable, in_quotes(text), below->second.in_mib(),
                                        below->first, below->second.in_mib())};
}

}  // namespace

std::optional<std::string> lifting(std::string_view value, const std::vector<std::string>& visible) {
  if (!lifts(value, visible)) return std::nullopt;
  return fmt::format(
      "{}={} is not understood by the driver, which would then hold the process to no memory limit; write "
      "device=amount for a device of the container, such as {}=4096M, or unset the variable",
      plan::kPinnedLimitVariable, in_quotes(value), visible.size() == 1 ? visible.front() : std::string("0"));
}

std::vector<TenantRemark> remarks_on(const std::string& threads, const std::string& memory,
                                     const DaemonLimits& granted) {
  std::vector<TenantRemark> remarks;
  if (auto remark = on_threads(threads, granted.threads)) remarks.push_back(*std::move(remark));
  if (auto remark = on_memory(memory, granted)) remarks.push_back(*std::move(remark));
  return remarks;
}

}  // namespace tranche::mps
