// Any text as a status document, and any name asked for: explanations or an Error, harmless to a terminal.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.h"
#include "harmless.h"
#include "observe/why/why.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto half = text.find('\n');  // the name comes first
  const auto status = half == std::string_view::npos ? std::string_view() : text.substr(half + 1);
  const auto found = tranche::why::explain(status, text.substr(0, half), {});
  if (!found) return 0;
  const std::string shown = tranche::why::render(*found, false, 80);
  for (const auto line : tranche::lines_of(shown))
    if (!tranche::fuzz::is_harmless(line)) std::abort();
  (void)tranche::why::to_json(*found);
  return 0;
}
