#include "host/process/proc_stat.h"

#include "base/text.h"

namespace tranche::host {

std::optional<std::uint64_t> parse_start_ticks(std::string_view stat) {
  const auto name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  const auto fields = words_of(stat.substr(name_end + 1));  // the first is field 3
  constexpr std::size_t kStartTime = 22 - 3;
  if (fields.size() <= kStartTime) return std::nullopt;
  return parse_unsigned(fields[kStartTime]);
}

}  // namespace tranche::host
