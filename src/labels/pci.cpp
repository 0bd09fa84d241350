#include "labels/pci.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace tranche::labels {
namespace {

constexpr std::string_view kNvidia = "10de";
constexpr std::uint64_t kMemory = 0x200;   // IORESOURCE_MEM
constexpr std::uint64_t kWide = 0x100000;  // IORESOURCE_MEM_64
constexpr std::size_t kBars = 6;
constexpr std::size_t kIdDigits = 4;

// PCI configuration space: the offsets and numbers on the way to a vendor-specific capability.
constexpr std::size_t kWhole = 256;
constexpr std::size_t kStatus = 0x06;
constexpr std::uint8_t kHasCapabilities = 0x10;
constexpr std::size_t kFirstCapability = 0x34;
constexpr std::uint8_t kVendorSpecific = 0x09;
constexpr std::uint8_t kBroken = 0xff;

// NVIDIA's content of the capability: "VF" at bytes 3 and 4, then records of (id, length, …); record 0 is the host's
// driver.
constexpr std::size_t kSignature = 3;
constexpr std::size_t kFirstRecord = 5;
constexpr std::size_t kTextBytes = 10;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<std::uint8_t>(bytes[at]) : 0;
}

std::string text_at(std::string_view bytes, std::size_t at) {
  const std::string_view field = bytes.substr(at, kTextBytes);
  return std::string(field.substr(0, field.find('\0')));
}

Vgpu read_records(std::string_view capability) {
  Vgpu vgpu;
  vgpu.present = true;
  std::size_t at = kFirstRecord;
  while (at + 1 < capability.size() && byte_at(capability, at) != 0) {
    const std::size_t length = byte_at(capability, at + 1);
    if (length < 2) return vgpu;  // malformed
    at += length;
  }
  if (at + 2 + 2 * kTextBytes > capability.size()) return vgpu;
  vgpu.host_driver_version = text_at(capability, at + 2);
  vgpu.host_driver_branch = text_at(capability, at + 2 + kTextBytes);
  return vgpu;
}

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
    const auto number = [&](std::size_t i) {
      return words[i].starts_with("0x") ? parse_unsigned(words[i].substr(2), 16) : std::nullopt;
    };
    const auto begin = number(0), end = number(1), flags = number(2);
    if (!begin || !end || !flags || (*flags & kMemory) == 0 || (*flags & kWide) == 0 || *end <= *begin) continue;
    const std::uint64_t last = *end - *begin;
    if (last != UINT64_MAX) largest = std::max(largest, Bytes{last + 1});
  }
  return largest;
}

Result<Vgpu> vgpu_of(std::string_view config) {
  if (config.size() < kWhole)
    return fail(Kind::kDenied, "the PCI configuration space can be read in part only; that needs CAP_SYS_ADMIN");
  config = config.substr(0, kWhole);
  if ((byte_at(config, kStatus) & kHasCapabilities) == 0) return Vgpu{};
  std::array<bool, kWhole> seen{};
  for (std::size_t at = byte_at(config, kFirstCapability); at != 0 && !seen[at]; at = byte_at(config, at + 1)) {
    seen[at] = true;
    const std::uint8_t id = byte_at(config, at);
    if (id == kBroken) break;
    if (id != kVendorSpecific) continue;
    const std::string_view capability = config.substr(at, byte_at(config, at + 2));
    if (capability.size() > kFirstRecord && capability.substr(kSignature, 2) == "VF") return read_records(capability);
  }
  return Vgpu{};
}

}  // namespace tranche::labels
