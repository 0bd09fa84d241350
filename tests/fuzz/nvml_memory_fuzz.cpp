// What the driver library writes into our buffers is outside text too: whatever it wrote, the stride is one of the
// three that exist or the documented one, entries stay inside the buffer, and an address is a safe file name.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "gpu/driver/mig/mig.h"
#include "gpu/driver/processes.h"
#include "gpu/inventory/inventory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::host::nvml;
  if (size < 2) return 0;
  const std::size_t count = data[0], documented = data[1] % 2 == 0 ? 16 : 24;
  const std::span<const std::byte> buffer(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  const std::size_t stride = stride_of(buffer, count, documented);
  if (stride != 16 && stride != 24 && stride != 32) std::abort();
  if (entries_of(buffer, count, stride).size() * stride > buffer.size()) std::abort();

  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string address = tranche::inventory::sysfs_address(text);
  if (address.find('/') != std::string::npos || address.find("..") != std::string::npos) std::abort();
  if (!address.empty() && tranche::inventory::sysfs_address(address) != address) std::abort();

  std::uint64_t numbers[2] = {};
  for (std::size_t i = 0; i < size && i < 16; ++i) numbers[i / 8] = numbers[i / 8] << 8 | data[i];
  if (profile_text(data[0], data[1], numbers[0] >> 24, numbers[1], "").find("gb") == std::string::npos) std::abort();
  return 0;
}
