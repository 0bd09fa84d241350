// The control daemon stand-in reads lines of interface version 3 from whoever connects.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "standins/mps/v3.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto command = parse_v3(text);
  if (command.module.empty() && !command.verb.empty()) std::abort();
  if (const auto bytes = v3_size(text); bytes && *bytes == 0) std::abort();
  if (const auto percent = v3_percentage(text); percent && (*percent < 1 || *percent > 100)) std::abort();
  if (is_v3_name(text) && text.find('/') != std::string_view::npos) std::abort();
  return 0;
}
