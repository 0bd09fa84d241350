// Any text as an opaque configuration: what is read is within bounds, and a refusal can be shown.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dra/device_config.h"
#include "harmless.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace dra = tranche::dra;
  const auto read = dra::read_device_config({reinterpret_cast<const char*>(data), size}, "config[0].opaque.parameters");
  if (!read) {
    if (!tranche::fuzz::is_harmless(to_string(read.error()))) std::abort();
    return 0;
  }
  if (read->threads > 100) std::abort();
  const bool mps = read->strategy == dra::DeviceConfig::Strategy::kMps;
  if (!mps && (read->threads != 0 || read->memory.value != 0 || !read->memory_on.empty())) std::abort();
  if (mps && !read->interval.empty()) std::abort();
  if (read->memory.value % tranche::mib(1).value != 0) std::abort();
  for (const auto& [device, limit] : read->memory_on)
    if (limit.value == 0 || limit.value % tranche::mib(1).value != 0) std::abort();
  return 0;
}
