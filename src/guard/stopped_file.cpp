#include "guard/stopped_file.h"

#include "base/text.h"

namespace tranche::guard {
namespace {

constexpr std::size_t kWordsOfStopped = 4;
constexpr std::uint64_t kMostPid = 0x7fffffff;

}  // namespace

std::string render_stopped(const StoppedProcesses& stopped) {
  std::string text;
  for (const auto& [id, because] : stopped)
    text += std::to_string(id.pid) + ' ' + std::to_string(id.start_ticks) + ' ' + because.first + ' ' + because.second +
            '\n';
  return text;
}

StoppedProcesses parse_stopped(std::string_view text) {
  StoppedProcesses stopped;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() != kWordsOfStopped) continue;
    const auto pid = parse_unsigned(words[0]);
    const auto ticks = parse_unsigned(words[1]);
    if (!pid || *pid == 0 || *pid > kMostPid || !ticks) continue;
    stopped[{static_cast<std::uint32_t>(*pid), *ticks}] = {std::string(words[2]), std::string(words[3])};
  }
  return stopped;
}

}  // namespace tranche::guard
