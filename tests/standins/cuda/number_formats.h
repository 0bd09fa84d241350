#pragma once
// Number formats of a GPU, for the stand-ins: single precision, bf16, fp16 and fp8 (e4m3). Halves are rounded to the
// nearest, ties to even. Pure.
#include <cstdint>

namespace tranche::sim {

enum class NumberFormat : std::uint32_t {
  kF32 = 0,
  kBf16 = 1,
  kF16 = 2,
  kE4m3 = 3
};  // tools/gemm-check/gemm_kernels.h

std::uint64_t bytes_of(NumberFormat format);
float load_number(const void* array, std::uint64_t index, NumberFormat format);
void store_number(void* array, std::uint64_t index, NumberFormat format, float value);
std::uint32_t load_bits(const void* array, std::uint64_t index, NumberFormat format);

}  // namespace tranche::sim
