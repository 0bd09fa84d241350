// Any bytes in a message: UTF-8 on one line without a control character, not longer than its bound, never cut inside a
// character.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "harmless.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto quoted = tranche::in_quotes(text);
  if (!tranche::fuzz::is_harmless(quoted)) std::abort();
  if (quoted.size() > 4 * 80 + 5) std::abort();  // every byte as \xff, the quotes and the ellipsis
  if (!tranche::fuzz::is_harmless(tranche::visible_text(text))) std::abort();
  for (const std::size_t most : {0, 3, 10, 80})
    if (tranche::cut_text(text, most).size() > most) std::abort();
  return 0;
}
