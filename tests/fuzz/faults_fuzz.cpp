// Whole logs: the book stays bounded, and nobody is culprit and victim of one fault.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "mps/control/faults.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  mps::FaultBook book;
  for (const auto line : lines_of({reinterpret_cast<const char*>(data), size})) {
    if (const auto parsed = mps::parse_log_line(line)) book.read(*parsed, WallTime{});
  }
  if (book.faults().size() > mps::kMostFaults) std::abort();
  for (const auto& fault : book.faults()) {
    if (std::ranges::find(fault.victims, fault.culprit) != fault.victims.end()) std::abort();
  }
  return 0;
}
