#include "os/process/proc_stat.h"

#include "base/text.h"

namespace tranche::os {

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
                    fields[0].front(), false};
  constexpr std::size_t kFlags = 9 - 3;
  constexpr std::uint64_t kExiting = 0x4;
  if (fields.size() > kFlags) head.exiting = (parse_unsigned(fields[kFlags]).value_or(0) & kExiting) != 0;
  for (char& c : head.name)
    if (c < ' ' || c > '~') c = '?';
  return head;
}

std::vector<pid_t> parse_namespaced_pids(std::string_view text) {
  constexpr std::string_view kKey = "NSpid:";
  constexpr std::uint64_t kMostPid = 4'194'304;
  std::vector<pid_t> pids;
  for (const auto line : lines_of(text)) {
    if (!line.starts_with(kKey)) continue;
    for (const auto word : words_of(line.substr(kKey.size()))) {
      const auto pid = parse_unsigned(word);
      if (!pid || *pid == 0 || *pid > kMostPid) return {};
      pids.push_back(static_cast<pid_t>(*pid));
    }
    return pids;
  }
  return pids;
}

}  // namespace tranche::os
