#include "mps/pool/ending_file.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kWords = 3;
constexpr std::uint64_t kMostPid = 0x7fffffff;
constexpr std::array<std::string_view, 3> kFor{"end", "continue", "closed"};  // by StoppedFor

}  // namespace

std::string render_ending(const EndingProcesses& processes) {
  std::string text;
  for (const auto& [process, what] : processes) {
    text += std::to_string(process.first) + ' ' + std::to_string(process.second) + ' ';
    text += kFor[static_cast<std::size_t>(what)];
    text += '\n';
  }
  return text;
}

EndingProcesses parse_ending(std::string_view text) {
  EndingProcesses processes;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() != kWords) continue;
    const auto* const word = std::ranges::find(kFor, words[2]);
    if (word == kFor.end()) continue;
    const auto pid = parse_unsigned(words[0]);
    const auto ticks = parse_unsigned(words[1]);
    if (!pid || *pid == 0 || *pid > kMostPid || !ticks) continue;
    processes[{static_cast<std::uint32_t>(*pid), *ticks}] = static_cast<StoppedFor>(word - kFor.begin());
  }
  return processes;
}

}  // namespace tranche::mps
