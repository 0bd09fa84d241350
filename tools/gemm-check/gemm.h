#pragma once
// What the tool is asked and what it finds: matrix products of cuBLAS, each into an output that was poisoned first,
// each compared element by element with a reference of our own. On Hopper with 132 SMs half-precision products come
// back partly unwritten at most SM counts between 17 and 117, with success returned (data/sm-counts.yaml); this finds
// such counts. Values and words only, pure; gemm_run.h does it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::gemm_check {

enum class GemmType : std::uint8_t { kBf16, kFp16, kFp8, kTf32, kFp32 };
std::string_view to_string(GemmType type);  // "bf16"

struct GemmShape {  // (m×k)·(k×n)
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  bool operator==(const GemmShape&) const = default;
};
std::string to_string(const GemmShape& shape);  // "16x4096x4096"

inline constexpr std::uint32_t kLargestSide = 16384;  // so that no matrix passes 2^28 elements and sums stay exact

Result<std::vector<GemmShape>> parse_gemm_shapes(std::string_view text);  // "512,16x4096x4096": a cube, or m×n×k
Result<std::vector<GemmType>> parse_gemm_types(std::string_view text);    // "bf16,fp16"
std::vector<GemmShape> default_gemm_shapes();
std::vector<GemmType> default_gemm_types();

struct GemmOptions {
  std::vector<GemmShape> shapes;  // at least one
  std::vector<GemmType> types;
  std::string cublas;       // --cublas
  std::string driver_root;  // where the host's files are seen, "" = here
};

enum class GemmOutcome : std::uint8_t { kRight, kWrong, kNotChecked };
std::string_view to_string(GemmOutcome outcome);  // "right", "WRONG", "not checked"

struct GemmCase {
  GemmShape shape;
  GemmType type{};
  bool transposed = false;  // TN: a is stored row by row, as a layer's weights are; otherwise NN
  GemmOutcome outcome = GemmOutcome::kNotChecked;
  std::uint64_t elements = 0;   // compared: two draws of inputs
  std::uint64_t unwritten = 0;  // still poison
  std::uint64_t wrong = 0;      // written, and not the product
  double gflops = 0;            // 10^9 operations a second of the faster of the two products
  std::string note;             // why it was not checked
};
std::string_view layout_of(const GemmCase& one);  // "NN", "TN"

struct GemmReport {
  std::string library;  // path; empty when cuBLAS could not be opened
  int version = 0;      // as cuBLAS gives it, 130001
  std::vector<GemmCase> cases;
  std::string not_checked;  // why nothing at all was
  double seconds = 0;

  std::uint64_t count(GemmOutcome outcome) const;
  // kWrong when any is; kNotChecked when none was checked.
  GemmOutcome outcome() const;
};

}  // namespace tranche::gemm_check
