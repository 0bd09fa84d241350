// Any bytes as an ELF file that a foreign process has mapped; the first line is the name to look for.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "os/process/elf_symbol.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = text.find('\n');
  const auto name = line == std::string_view::npos ? std::string_view("environ") : text.substr(0, line);
  if (line != std::string_view::npos) text.remove_prefix(line + 1);
  if (const auto symbol = tranche::host::dynamic_symbol(text, name); symbol && symbol->address == 0) std::abort();
  return 0;
}
