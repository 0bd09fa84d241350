// Any command line is read without harm: words begin with a flag, the rest is an end of what was given, and words that
// were read once are all flags when read again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cli/go_arguments.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::cli;
  std::vector<std::string> arguments(1);
  for (const char c : std::string_view(reinterpret_cast<const char*>(data), size)) {
    if (c == '\n')
      arguments.emplace_back();
    else
      arguments.back() += c;
  }
  const auto takes_value = [](std::string_view name) { return name.size() % 2 == 0; };
  const GoArguments read = read_go_arguments(arguments, takes_value);
  if (read.rest.size() > arguments.size()) std::abort();
  for (std::size_t i = 0; i < read.rest.size(); ++i)
    if (read.rest[i] != arguments[arguments.size() - read.rest.size() + i]) std::abort();
  if (!read.words.empty() && !read.words.front().starts_with('-')) std::abort();
  const GoArguments again = read_go_arguments(read.words, takes_value);
  if (again.words != read.words || !again.rest.empty()) std::abort();
  return 0;
}
