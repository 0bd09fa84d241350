// Any text as the API server's answer about a claim: what is read is within bounds and can be prepared or refused.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dra/prepare.h"
#include "harmless.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace dra = tranche::dra;
  const auto read =
      dra::read_claim({reinterpret_cast<const char*>(data), size}, {"team", "train", "u-1"}, "gpu.tranche.io");
  if (!read) {
    if (!tranche::fuzz::is_harmless(to_string(read.error()))) std::abort();
    return 0;
  }
  if (read->devices.empty() || read->devices.size() > dra::kMostResults) std::abort();
  for (const auto& config : read->configs)
    if (config.parameters.size() > dra::kLargestParameters) std::abort();
  dra::Offered offered;
  dra::Device shared;
  shared.name = "gpu-0-shared";
  shared.kind = dra::Kind::kShared;
  shared.gpu_uuid = "GPU-1";
  shared.memory = tranche::gib(80);
  shared.sms = 132;
  offered.devices = {shared};
  offered.mps_pools = {{"GPU-1", "gpu-1"}};
  const auto made = dra::prepare(*read, offered, {});
  if (!made) return tranche::fuzz::is_harmless(to_string(made.error())) ? 0 : (std::abort(), 0);
  for (const auto& part : made->parts)
    if (part.limits.memory > shared.memory || part.cores > dra::kCoresAll) std::abort();
  return 0;
}
