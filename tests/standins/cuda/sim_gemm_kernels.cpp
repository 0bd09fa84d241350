// The matrix kernels of gemm-check, as described in tools/gemm-check/gemm_kernels.h, on the CPU.
#include <cmath>

#include "standins/cuda/number_formats.h"
#include "standins/cuda/sim_kernels.h"

namespace tranche::sim {
namespace {

struct Numbers {
  std::uint32_t span, bias, zeros;
  float scale;
};

float number_at(std::uint32_t index, std::uint32_t seed, const Numbers& n) {
  std::uint32_t x = (index ^ seed) * 2654435761u;
  x = (x ^ (x >> 15)) * 2246822507u;
  x ^= x >> 13;
  const bool zero = (x / 256 & n.zeros) != 0;
  return zero ? 0.0f : static_cast<float>(std::int64_t{x & n.span} - n.bias) * n.scale;
}

void operand(const KernelCall& call) {
  const auto [count, inner, depth, format, seed, span, bias, zeros, unused] = call.numbers;
  const Numbers numbers{span, bias, zeros, call.reals[0]};
  auto* out = reinterpret_cast<void*>(call.out);
  for (std::uint32_t s = 0; s < count; ++s) {
    const std::uint32_t index = inner == 0 ? s : s % inner * depth + s / inner;
    store_number(out, s, static_cast<NumberFormat>(format), number_at(index, seed, numbers));
  }
}

void product(const KernelCall& call) {
  const auto [m, n, k, seed_a, seed_b, span, bias, zeros, unused] = call.numbers;
  const Numbers numbers{span, bias, zeros, call.reals[0]};
  std::vector<float> a(std::size_t{m} * k), b(std::size_t{n} * k);
  for (std::uint32_t i = 0; i < a.size(); ++i) a[i] = number_at(i, seed_a, numbers);
  for (std::uint32_t i = 0; i < b.size(); ++i) b[i] = number_at(i, seed_b, numbers);
  auto* out = reinterpret_cast<float*>(call.out);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < m; ++i) {
      float sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
      out[j * m + i] = sum;
    }
  }
}

void compare(const KernelCall& call) {
  const auto format = static_cast<NumberFormat>(call.numbers[1]);
  auto* tally = reinterpret_cast<std::uint32_t*>(call.out);
  const auto* got = reinterpret_cast<const void*>(call.got);
  const auto* want = reinterpret_cast<const float*>(call.want);
  const std::uint32_t poison = format == NumberFormat::kF32 ? UINT32_MAX : 0xffff;
  for (std::uint32_t s = 0; s < call.numbers[0]; ++s) {
    if (load_bits(got, s, format) == poison) {
      ++tally[0];
      continue;
    }
    const float difference = std::fabs(load_number(got, s, format) - want[s]);
    if (!(difference <= std::fabs(want[s]) * call.reals[0] + call.reals[1])) ++tally[1];
  }
}

std::uint64_t product_of(std::uint32_t a, std::uint32_t b) {
  return std::uint64_t{a} * b;
}

}  // namespace

std::vector<Range> touched_by_matrix(const KernelCall& call) {
  const auto& n = call.numbers;
  if (call.kind == KernelKind::kOperand) return {{call.out, n[0] * bytes_of(static_cast<NumberFormat>(n[3]))}};
  if (call.kind == KernelKind::kProduct) return {{call.out, 4 * product_of(n[0], n[1])}};
  return {{call.out, 8},
          {call.got, n[0] * bytes_of(static_cast<NumberFormat>(n[1]))},
          {call.want, 4 * std::uint64_t{n[0]}}};
}

std::uint64_t matrix_steps(const KernelCall& call) {
  return call.kind == KernelKind::kProduct ? product_of(call.numbers[0], call.numbers[1]) * call.numbers[2]
                                           : call.numbers[0];
}

void compute_matrix(const KernelCall& call) {
  if (call.kind == KernelKind::kOperand) return operand(call);
  if (call.kind == KernelKind::kProduct) return product(call);
  compare(call);
}

}  // namespace tranche::sim
