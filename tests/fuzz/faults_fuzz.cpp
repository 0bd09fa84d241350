// Whole logs: the history stays bounded, and no process is both culprit and victim of one fault.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "mps/control/log_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  mps::FaultHistory history;
  const mps::FaultHistory::Processes processes{.grant_of = [](int) { return ""; },
                                               .lives = [](int pid) { return pid % 2 == 0; }};
  for (const auto line : lines_of({reinterpret_cast<const char*>(data), size})) {
    if (const auto parsed = mps::parse_log_line(line)) history.read(*parsed, WallTime{}, processes);
  }
  if (history.last().size() > mps::kMostFaults) std::abort();
  for (const auto& fault : history.last()) {
    if (std::ranges::find(fault.victims, fault.culprit) != fault.victims.end()) std::abort();
  }
  return 0;
}
