#include "labels/pci.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::label {
namespace {

constexpr std::string_view kNvidia = "10de";
constexpr std::uint64_t kMemory = 0x200;   // IORESOURCE_MEM
constexpr std::uint64_t kWide = 0x100000;  // IORESOURCE_MEM_64
constexpr std::size_t kBars = 6;
constexpr std::size_t kIdDigits = 4;

}  // namespace

std::optional<std::uint32_t> hex_number(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("0x")) return std::nullopt;
  const auto number = parse_unsigned(text.substr(2), 16);
  if (!number || *number > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::string device_name(std::string_view pci_ids, std::uint16_t device) {
  bool nvidia = false;
  for (const auto line : lines_of(pci_ids)) {
    if (line.empty() || line.front() == '#') continue;
    if (line.front() != '\t') {
      if (nvidia) return {};  // end of its devices
      nvidia = line.starts_with(kNvidia);
      continue;
    }
    // One tab: a device. Two: a board with it.
    if (!nvidia || line.starts_with("\t\t") || line.size() <= 1 + kIdDigits) continue;
    if (parse_unsigned(line.substr(1, kIdDigits), 16) == device)
      return std::string(trimmed(line.substr(1 + kIdDigits)));
  }
  return {};
}

Bytes largest_region(std::string_view resource) {
  Bytes largest;
  auto lines = lines_of(resource);
  lines.resize(std::min(lines.size(), kBars));  // further lines: the ROM, and the regions of virtual functions
  for (const auto line : lines) {
    const auto words = words_of(line);
    if (words.size() != 3) continue;
    std::uint64_t values[3] = {};
    bool whole = true;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto value = words[i].starts_with("0x") ? parse_unsigned(words[i].substr(2), 16) : std::nullopt;
      whole = whole && value.has_value();
      values[i] = value.value_or(0);
    }
    if (!whole || (values[2] & kMemory) == 0 || (values[2] & kWide) == 0 || values[1] <= values[0]) continue;
    const std::uint64_t last = values[1] - values[0];
    if (last != UINT64_MAX) largest = std::max(largest, Bytes{last + 1});
  }
  return largest;
}

}  // namespace tranche::label
