#pragma once
// GPU code of the tool as PTX text (ISA 6.0, sm_50 and newer) and its arithmetic for the host. Inputs are
// never stored twice: operand and reference compute every element from its index, so that a reference does not depend
// on what was written. All values and all sums of products are exact in single precision, whatever the order. Pure.
//
//   tranche_operand(u64 out, u32 count, u32 inner, u32 depth, u32 format, u32 seed, u32 span, u32 bias, u32 zeros,
//                   f32 scale)
//       out[s] = operand_value(index) in `format`, for s < count; any grid of 256 threads a block. index = s when inner
//       is 0; else (s mod inner)·depth + s/inner, which writes the transposed matrix.
//   tranche_product(u64 out, u32 m, u32 n, u32 k, u32 seed_a, u32 seed_b, u32 span, u32 bias, u32 zeros, f32 scale)
//       out[i + j·m] = Σ a(i·k + l)·b(j·k + l) over l, as f32; 256 threads a block, product_blocks(m, n) blocks
//   tranche_compare(u64 tally, u64 got, u64 want, u32 count, u32 format, f32 relative, f32 absolute)
//       tally[0] += elements that are still poison (all bits set), tally[1] += others that differ from the f32 in
//       `want` by more than |want|·relative + absolute, NaN included; any grid of 256 threads a block
#include <bit>
#include <cstdint>

namespace tranche::gemm_check {

inline constexpr const char* kOperandKernel = "tranche_operand";
inline constexpr const char* kProductKernel = "tranche_product";
inline constexpr const char* kCompareKernel = "tranche_compare";
inline constexpr unsigned kGemmThreads = 256;
inline constexpr std::uint32_t kProductTile = 64;

enum class Format : std::uint32_t { kF32 = 0, kBf16 = 1, kF16 = 2, kE4m3 = 3 };
constexpr std::uint32_t bytes_of(Format format) {
  return format == Format::kF32 ? 4 : format == Format::kE4m3 ? 1 : 2;
}

// How elements are drawn: ((mixed & span) - bias)·scale, or 0 where (mixed >> 8) & zeros is set.
struct Draw {
  std::uint32_t span = 0;
  std::uint32_t bias = 0;
  std::uint32_t zeros = 0;
  float scale = 1;
};
// -1, 0 and 1, sparse enough that sums (standard deviation at most 32 up to a depth of 16384) are exact in bf16 too,
// partial ones included: any difference is an error.
constexpr Draw whole_numbers(std::uint32_t depth) {
  return {2, 1, depth <= 2048 ? 1u : 3u, 1.0f};
}
// Sixteenths from -15/16 to 1: exact in every format, sums exact in f32; halves round them on output.
inline constexpr Draw kSixteenths{31, 15, 0, 0.0625f};

constexpr float operand_value(std::uint32_t index, std::uint32_t seed, const Draw& draw) {
  std::uint32_t mixed = (index ^ seed) * 0x9E3779B1u;
  mixed = (mixed ^ (mixed >> 15)) * 0x85EBCA6Bu;
  mixed ^= mixed >> 13;
  if (((mixed >> 8) & draw.zeros) != 0) return 0;
  return static_cast<float>(static_cast<std::int32_t>((mixed & draw.span) - draw.bias)) * draw.scale;
}

constexpr std::uint64_t product_blocks(std::uint32_t m, std::uint32_t n) {
  return std::uint64_t{(m + kProductTile - 1) / kProductTile} * ((n + kProductTile - 1) / kProductTile);
}

extern const char* const kGemmPtx;

}  // namespace tranche::gemm_check
