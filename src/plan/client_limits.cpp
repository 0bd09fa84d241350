#include "plan/client_limits.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "config/names.h"

namespace tranche::plan {
namespace {

struct Unit {
  std::string_view text;
  unsigned shift;
};
// Longest first: "MB" must not be read as "M" with trailing text.
constexpr std::array<Unit, 4> kUnits{{{"MB", 20}, {"GB", 30}, {"M", 20}, {"G", 30}}};

std::unexpected<Error> refuse(std::string what) {
  return fail(Kind::kInvalid, std::move(what), kPinnedLimitVariable);
}

Result<Bytes> parse_amount(std::string_view text) {
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.text)) continue;
    const auto number = parse_unsigned(text.substr(0, text.size() - unit.text.size()));
    if (!number) break;
    if (*number == 0) return refuse("a limit of " + in_quotes(text) + " lifts every limit; write at least 1M");
    if (*number > std::numeric_limits<std::uint64_t>::max() >> unit.shift) {
      return refuse("a limit of " + in_quotes(text) + " is more than can be counted in bytes");
    }
    return Bytes{*number << unit.shift};
  }
  if (parse_unsigned(text)) {
    return refuse("the limit " + in_quotes(text) + " has no unit; write M or G behind it, for example 4096M");
  }
  return refuse("the limit " + in_quotes(text) + " is not a whole number with unit M or G, such as 4096M");
}

Result<DeviceMemory> parse_entry(std::string_view entry) {
  const auto equals = entry.find('=');
  if (equals == std::string_view::npos) {
    return refuse("the entry " + in_quotes(entry) + " must be <GPU UUID>=<amount>, for example GPU-…=4096M");
  }
  const auto key = entry.substr(0, equals);
  if (!is_gpu_uuid(key)) {
    return refuse("the device " + in_quotes(key) +
                  " is not the full UUID of a GPU; ordinals and short names mean another GPU, or none, in another "
                  "process");
  }
  TRY(const Bytes amount, parse_amount(entry.substr(equals + 1)));
  return DeviceMemory{std::string(key), amount};
}

}  // namespace

bool is_gpu_uuid(std::string_view text) {
  constexpr std::size_t kLength = 40;  // with dashes: a shorter or longer reference is in another form
  return text.size() == kLength && text.starts_with("GPU-") && config::is_device_reference(text);
}

std::string render_pinned_limit(std::span<const DeviceMemory> limits) {
  return join(limits, ",", [](const DeviceMemory& limit) {
    return limit.first + '=' + std::to_string(limit.second.in_mib()) + 'M';
  });
}

Result<std::vector<DeviceMemory>> parse_pinned_limit(std::string_view text) {
  std::vector<DeviceMemory> limits;
  if (text.empty()) return limits;
  for (const auto entry : split(text, ',')) {
    TRY(DeviceMemory limit, parse_entry(entry));
    const auto same = [&](const DeviceMemory& other) { return other.first == limit.first; };
    if (std::ranges::any_of(limits, same)) return refuse("the device " + limit.first + " is named twice");
    limits.push_back(std::move(limit));
  }
  return limits;
}

}  // namespace tranche::plan
