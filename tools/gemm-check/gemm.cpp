#include "gemm-check/gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace tranche::gemm_check {
namespace {

constexpr std::array kTypes = std::to_array<std::pair<GemmType, std::string_view>>({
    {GemmType::kBf16, "bf16"},
    {GemmType::kFp16, "fp16"},
    {GemmType::kFp8, "fp8"},
    {GemmType::kTf32, "tf32"},
    {GemmType::kFp32, "fp32"},
});

std::unexpected<Error> not_a_shape(std::string_view text) {
  return fail(Kind::kInvalid,
              "not a shape: " + in_quotes(std::string(text)) + "; write one side of a cube (512) or m x n x k (" +
                  "16x4096x4096), each from 1 to " + std::to_string(kLargestSide),
              "--shapes");
}

Result<GemmShape> parse_shape(std::string_view text) {
  const auto parts = split(text, 'x');
  if (parts.size() != 1 && parts.size() != 3) return not_a_shape(text);
  std::array<std::uint32_t, 3> sides{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto side = parse_unsigned(parts[parts.size() == 1 ? 0 : i]);
    if (!side || *side == 0 || *side > kLargestSide) return not_a_shape(text);
    sides[i] = static_cast<std::uint32_t>(*side);
  }
  return GemmShape{sides[0], sides[1], sides[2]};
}

}  // namespace

std::string_view to_string(GemmType type) {
  const auto found = std::ranges::find(kTypes, type, &std::pair<GemmType, std::string_view>::first);
  return found == kTypes.end() ? "?" : found->second;
}

std::string to_string(const GemmShape& shape) {
  return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
}

Result<std::vector<GemmShape>> parse_gemm_shapes(std::string_view text) {
  std::vector<GemmShape> shapes;
  for (const auto part : split(text, ',')) {
    TRY(const GemmShape shape, parse_shape(trimmed(part)));
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

Result<std::vector<GemmType>> parse_gemm_types(std::string_view text) {
  std::vector<GemmType> types;
  for (const auto part : split(text, ',')) {
    const auto found = std::ranges::find(kTypes, trimmed(part), &std::pair<GemmType, std::string_view>::second);
    if (found == kTypes.end()) {
      return fail(Kind::kInvalid,
                  "not a type: " + in_quotes(std::string(trimmed(part))) + "; write of bf16, fp16, fp8, tf32 and fp32",
                  "--types");
    }
    if (std::ranges::find(types, found->first) == types.end()) types.push_back(found->first);
  }
  return types;
}

// Cubes of four sizes; what transformers multiply (wide, deep, a few tokens at a time); sides that no tile divides.
std::vector<GemmShape> default_gemm_shapes() {
  return {{512, 512, 512},     {1024, 1024, 1024},  {2048, 2048, 2048}, {4096, 4096, 4096},
          {4096, 4096, 11008}, {11008, 2048, 4096}, {16, 4096, 4096},   {4096, 16, 4096},
          {8192, 1024, 8192},  {1000, 1000, 1000},  {2304, 1536, 768},  {1536, 3000, 520}};
}

std::vector<GemmType> default_gemm_types() {
  return {GemmType::kBf16, GemmType::kFp16, GemmType::kFp8, GemmType::kTf32, GemmType::kFp32};
}

std::string_view to_string(GemmOutcome outcome) {
  switch (outcome) {
    case GemmOutcome::kRight:
      return "right";
    case GemmOutcome::kWrong:
      return "WRONG";
    case GemmOutcome::kNotChecked:
      break;
  }
  return "not checked";
}

std::string_view layout_of(const GemmCase& one) {
  return one.transposed ? "TN" : "NN";
}

std::uint64_t GemmReport::count(GemmOutcome outcome) const {
  return static_cast<std::uint64_t>(std::ranges::count(cases, outcome, &GemmCase::outcome));
}

GemmOutcome GemmReport::outcome() const {
  if (count(GemmOutcome::kWrong) > 0) return GemmOutcome::kWrong;
  return count(GemmOutcome::kRight) > 0 ? GemmOutcome::kRight : GemmOutcome::kNotChecked;
}

}  // namespace tranche::gemm_check
