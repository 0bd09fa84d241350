#include "mps/pool/ending_file.h"

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kWords = 3;
constexpr std::uint64_t kMostPid = 0x7fffffff;
constexpr std::string_view kEndWord = "end";
constexpr std::string_view kContinueWord = "continue";

}  // namespace

std::string render_ending(const EndingProcesses& processes) {
  std::string text;
  for (const auto& [process, what] : processes) {
    text += std::to_string(process.first) + ' ' + std::to_string(process.second) + ' ';
    text += what == StoppedFor::kEnd ? kEndWord : kContinueWord;
    text += '\n';
  }
  return text;
}

EndingProcesses parse_ending(std::string_view text) {
  EndingProcesses processes;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() != kWords || (words[2] != kEndWord && words[2] != kContinueWord)) continue;
    const auto pid = parse_unsigned(words[0]);
    const auto ticks = parse_unsigned(words[1]);
    if (!pid || *pid == 0 || *pid > kMostPid || !ticks) continue;
    processes[{static_cast<std::uint32_t>(*pid), *ticks}] =
        words[2] == kEndWord ? StoppedFor::kEnd : StoppedFor::kContinue;
  }
  return processes;
}

}  // namespace tranche::mps
