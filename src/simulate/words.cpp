#include "simulate/words.h"

#include <fmt/format.h>

namespace tranche::simulate {

std::string memory_text(const plan::ShareLimits& worth) {
  return worth.memory.value == 0 ? "not limited" : fmt::format("{} MiB", worth.memory.in_mib());
}

std::string sms_text(const plan::ShareLimits& worth) {
  if (worth.threads.hundredths == 0) return "not limited";
  if (worth.sms == 0) return to_string(worth.threads) + " %";
  return fmt::format("{} ({} %)", worth.sms, to_string(worth.threads));
}

std::string count_text(std::uint64_t n, const char* one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

}  // namespace tranche::simulate
