#include "mps/limits/tenant_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::mps {
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
