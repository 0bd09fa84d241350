// A tenant writes what it likes into CUDA_MPS_PINNED_DEVICE_MEM_LIMIT and CUDA_MPS_ACTIVE_THREAD_PERCENTAGE.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "standins/mps/limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::sim;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> uuids{"GPU-11111111-0000-0000-0000-000000000000",
                                       "GPU-22222222-0000-0000-0000-000000000000"};
  constexpr std::uint64_t kServer = 4ull << 30;
  const auto memory = read_client_memory(text, uuids);
  if (memory.lifted && !memory.by_uuid.empty()) std::abort();
  for (const auto& [uuid, bytes] : memory.by_uuid) {
    if (bytes == 0 || std::ranges::find(uuids, uuid) == uuids.end()) std::abort();
  }
  const auto limit = effective_memory(memory, uuids[0], kServer);
  if (limit.has_value() == memory.lifted || (limit && *limit > kServer)) std::abort();
  const double percent = effective_percentage(text, 50);
  if (!(percent > 0 && percent <= 50)) std::abort();
  const auto sms = sms_for(percent, 132);
  if (sms < 8 || sms > 66 || sms % 2 != 0) std::abort();
  MemoryLimits limits;
  limits.set(text, parse_daemon_memory(text));
  if (limits.get(text) == std::optional<std::uint64_t>(0)) std::abort();
  return 0;
}
