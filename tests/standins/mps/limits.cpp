#include "standins/mps/limits.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace tranche::sim {
namespace {

constexpr std::uint64_t kMib = 1ull << 20;
constexpr std::uint64_t kGib = 1ull << 30;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// strtod without its locale: nullopt unless the whole text is a plain decimal.
std::optional<double> decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Removes and returns the leading digits of `text`; nullopt without any, or beyond 64 bits.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// The UUID of a client's key among its visible devices: an ordinal in its numbering, or a whole UUID.
std::optional<std::string> key_uuid(std::string_view key, const std::vector<std::string>& uuids) {
  if (key.starts_with("GPU-") || key.starts_with("MIG-")) {
    const auto found = std::ranges::find(uuids, key);
    return found == uuids.end() ? std::nullopt : std::optional(*found);
  }
  if (key.empty() || !std::ranges::all_of(key, is_digit)) return std::nullopt;
  const auto ordinal = take_number(key);
  if (!ordinal || *ordinal >= uuids.size()) return std::nullopt;
  return uuids[*ordinal];
}

}  // namespace

std::uint32_t sms_for(double percent, std::uint32_t sm_count) {
  // The addend keeps 50 % of 132 at 66 when the product falls just short of the integer.
  const double pairs = std::floor(percent * sm_count / 200.0 + 1e-9);
  const auto sms = std::max<std::uint32_t>(8, 2 * static_cast<std::uint32_t>(std::max(0.0, pairs)));
  return std::min(sms, sm_count);
}

std::uint64_t context_bytes(std::uint32_t sms) {
  constexpr std::uint64_t at_12 = 75237776, at_132 = 514 * kMib;  // measured: 4096M - 4219729520; 514 MiB
  constexpr std::uint64_t per_sm = (at_132 - at_12) / 120;
  return at_12 - 12 * per_sm + sms * per_sm;
}

std::optional<double> parse_percentage(std::string_view text) {
  const auto value = decimal(text);
  if (!value || *value <= 0.0 || *value > 100.0) return std::nullopt;
  return value;
}

std::string percentage_text(double percent) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", percent);
  return text;
}

std::uint64_t parse_daemon_memory(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto number = take_number(text);
  if (!number) return 0;
  const std::uint64_t unit = text.starts_with('G') || text.starts_with('g') ? kGib : kMib;
  return negative ? 0 - *number * unit : *number * unit;  // wraps, like the daemon's
}

std::string memory_text(std::uint64_t bytes) {
  return bytes >= kGib ? std::to_string(bytes / kGib) + "G" : std::to_string(bytes / kMib) + "M";
}

void MemoryLimits::set(const std::string& key, std::uint64_t bytes) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
  if (bytes != 0) entries_.emplace_back(key, bytes);
}

std::optional<std::uint64_t> MemoryLimits::get(const std::string& key) const {
  for (const auto& [name, value] : entries_) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> MemoryLimits::for_gpu(int ordinal, const std::string& uuid) const {
  const auto by_ordinal = get(std::to_string(ordinal));
  return by_ordinal ? by_ordinal : get(uuid);
}

ClientMemory read_client_memory(const std::optional<std::string>& value, const std::vector<std::string>& uuids) {
  ClientMemory memory;
  if (!value || value->empty()) return memory;
  std::string_view rest = *value;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const auto entry = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) return {.lifted = true, .by_uuid = {}};
    const auto uuid = key_uuid(entry.substr(0, equals), uuids);
    const auto bytes = parse_daemon_memory(entry.substr(equals + 1));
    if (!uuid || bytes == 0) return {.lifted = true, .by_uuid = {}};
    memory.by_uuid[*uuid] = bytes;
  }
  return memory;
}

std::optional<std::uint64_t> effective_memory(const ClientMemory& client, const std::string& uuid,
                                              std::optional<std::uint64_t> server) {
  if (client.lifted) return std::nullopt;
  const auto own = client.by_uuid.find(uuid);
  if (own == client.by_uuid.end()) return server;
  return server ? std::min(*server, own->second) : own->second;
}

double effective_percentage(const std::optional<std::string>& value, double server) {
  const auto own = value ? parse_percentage(*value) : std::nullopt;
  return own ? std::min(*own, server) : server;
}

bool death_hurts_peers(const WorkInFlight& work) {
  if (work.left_ns <= 0) return false;
  if (work.kernel_ns >= 20'000'000) return true;
  return work.kernel_ns >= 5'000'000 && (work.tensor || work.left_ns > 2 * work.kernel_ns);
}

bool held_death_hurts_peers(const WorkInFlight& work) {
  return work.left_ns > 0 && work.kernel_ns >= 100'000'000;
}

bool termination_hurts_peers(const WorkInFlight& work) {
  return work.tensor && death_hurts_peers(work);
}

}  // namespace tranche::sim
