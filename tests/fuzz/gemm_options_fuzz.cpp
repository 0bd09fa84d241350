// Shapes that parse are within bounds and read back as they are written; types that parse have a name.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gemm-check/gemm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::gemm_check;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto shapes = parse_gemm_shapes(text)) {
    if (shapes->empty()) std::abort();
    for (const GemmShape& shape : *shapes) {
      if (shape.m == 0 || shape.m > kLargestSide || shape.n == 0 || shape.k > kLargestSide) std::abort();
      const auto again = parse_gemm_shapes(to_string(shape));
      if (!again || again->size() != 1 || again->front() != shape) std::abort();
    }
  }
  if (const auto types = parse_gemm_types(text)) {
    for (const GemmType type : *types)
      if (to_string(type) == "?") std::abort();
  }
  return 0;
}
