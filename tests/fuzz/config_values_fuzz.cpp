// The small grammars inside configuration values: what is accepted is read back to the same, and names that a pattern
// gives are names or refused.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/document/amounts.h"
#include "config/names.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = parse_memory_size(text)) {
    if (bytes->in_mib() == 0 || parse_memory_size(render_memory_size(*bytes)) != bytes) std::abort();
  }
  if (const auto factor = read_factor(resolve_plain(text)); factor && (*factor < 1 || *factor > 10000)) std::abort();
  if (const auto pattern = name_pattern(text)) {
    if (const auto again = name_pattern(*pattern); !again || *again != *pattern) std::abort();
    if (const auto name = resource_name(expand(*pattern, {"12", 80, "NVIDIA H200"})); name && name->size() > 63)
      std::abort();
  }
  if (const auto address = pci_address(text); address && pci_address(*address) != address) std::abort();
  if (text.find('*') == std::string_view::npos && !matches(text, text)) std::abort();
  if (!matches(text, "*")) std::abort();
  (void)is_device_reference(text);
  return 0;
}
