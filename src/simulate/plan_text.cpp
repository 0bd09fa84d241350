#include "simulate/plan_text.h"

#include <fmt/format.h>

namespace tranche::simulate {

std::string memory_text(const plan::ShareLimits& limits) {
  return limits.memory.value == 0 ? "not limited" : fmt::format("{} MiB", limits.memory.in_mib());
}

std::string sms_text(const plan::ShareLimits& limits) {
  if (limits.threads.hundredths == 0) return "not limited";
  if (limits.sms == 0) return to_string(limits.threads) + " %";
  return fmt::format("{} ({} %)", limits.sms, to_string(limits.threads));
}

std::string count_text(std::uint64_t n, const char* one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

}  // namespace tranche::simulate
