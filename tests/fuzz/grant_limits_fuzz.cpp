// Any text as the limits that are kept beside an endpoint: read whole, or refused; what is read is written the same,
// can be set at a daemon, and no word of it is more than one word of a command.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "mps/control/questions.h"
#include "mps/protocol/grant_limits.h"

using namespace tranche;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto limits = mps::parse_limits(text);
  if (!limits) return 0;
  if (!mps::check_limits(*limits)) std::abort();
  if (mps::parse_limits(mps::render_limits(*limits)).value() != *limits) std::abort();
  const auto limited = mps::limits_for(*limits, std::vector<std::string>{limits->front().uuid});
  if (!limited || limited->memory.size() != 1) std::abort();
  const auto input = mps::exchange_for(mps::ApplyLimits{1, *limited}).input;
  if (lines_of(input).size() != 2 || input.find(';') != std::string::npos) std::abort();
  return 0;
}
