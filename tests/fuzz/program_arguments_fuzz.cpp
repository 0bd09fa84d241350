// Any words as the command line of tranche-drain, one word a line, and any text as a drain socket's answer: what comes
// out lies inside.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "termination/program_arguments.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> words{"program"};
  for (const auto line : lines_of(text)) words.emplace_back(line.substr(0, line.find('\0')));
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());

  const auto drain = stopping::read_drain_arguments(argv);
  if (drain.timeout_ms < 0 || drain.timeout_ms > 600'000) std::abort();
  if (drain.command_at < 0 || static_cast<std::size_t>(drain.command_at) >= argv.size()) std::abort();
  if (drain.what == stopping::DrainArguments::Do::kDrain && (drain.timeout_ms == 0 || drain.socket.empty()))
    std::abort();
  if (stopping::says_ok(text) && text.find("\"ok\"") == std::string::npos) std::abort();
  return 0;
}
