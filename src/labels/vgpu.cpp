#include "labels/vgpu.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tranche::label {
namespace {

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

}  // namespace tranche::label
