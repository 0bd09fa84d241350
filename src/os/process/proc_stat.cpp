#include "os/process/proc_stat.h"

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

std::optional<ProcStatHead> parse_stat_head(std::string_view stat) {
  const auto begin = stat.find('(');
  const auto end = stat.rfind(')');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
  const auto fields = words_of(stat.substr(end + 1));
  const auto parent = fields.size() > 1 ? parse_unsigned(fields[1]) : std::nullopt;
  if (!parent || *parent > 0x7fffffff) return std::nullopt;
  ProcStatHead head{std::string(stat.substr(begin + 1, end - begin - 1)), static_cast<std::uint32_t>(*parent),
                    fields[0].front()};
  for (char& c : head.name)
    if (c < ' ' || c > '~') c = '?';
  return head;
}

}  // namespace tranche::host
