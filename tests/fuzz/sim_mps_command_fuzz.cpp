// The control daemon stand-in reads command lines and packets from whoever connects.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "standins/mps/commands.h"
#include "standins/mps/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto command = parse_command(text);
  if (command.name.empty() && !command.args.empty()) std::abort();
  for (const auto& word : command.args) {
    if (word.empty() || word.find_first_of(" \t") != std::string::npos) std::abort();
    loose_number(word);
  }
  if (command.kind == CommandKind::kUnknown && right_needed(command.kind) != Right::kAnyone) std::abort();
  if (const auto message = parse_message(text)) {
    const auto again = parse_message(render(*message));
    if (!again || again->verb != message->verb || again->fields != message->fields) std::abort();
  }
  return 0;
}
