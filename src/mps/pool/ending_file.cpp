#include "mps/pool/ending_file.h"

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kWords = 2;
constexpr std::uint64_t kMostPid = 0x7fffffff;

}  // namespace

std::string render_ending(const EndingProcesses& processes) {
  std::string text;
  for (const auto& [pid, ticks] : processes) text += std::to_string(pid) + ' ' + std::to_string(ticks) + '\n';
  return text;
}

EndingProcesses parse_ending(std::string_view text) {
  EndingProcesses processes;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() != kWords) continue;
    const auto pid = parse_unsigned(words[0]);
    const auto ticks = parse_unsigned(words[1]);
    if (!pid || *pid == 0 || *pid > kMostPid || !ticks) continue;
    processes.emplace(static_cast<std::uint32_t>(*pid), *ticks);
  }
  return processes;
}

}  // namespace tranche::mps
