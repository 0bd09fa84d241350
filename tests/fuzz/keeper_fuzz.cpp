// Any text as what the keeper and `tranche mps` say to each other: what is read is written and read back the same. Any
// text as /proc/devices.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/keeper/held_files.h"
#include "mps/keeper/keeper_status.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const auto status = mps::read_keeper_status(text)) {
    const auto again = mps::read_keeper_status(mps::to_json(*status));
    if (!again || again->clients.size() != status->clients.size()) std::abort();
  }
  if (const auto request = mps::read_keeper_request(text); request && !mps::read_keeper_request(mps::to_json(*request)))
    std::abort();
  (void)host::NvidiaDevices::parse(text).kind(195, 255);
  return 0;
}
