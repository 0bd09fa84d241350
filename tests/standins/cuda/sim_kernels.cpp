#include "standins/cuda/sim_kernels.h"

#include <algorithm>
#include <cstring>

namespace tranche::sim {
namespace {

constexpr std::int64_t kLaunchNs = 3'000;
constexpr std::int64_t kTensorStepNs = 73;  // 32 products of 16 x 8 x 16 on one SM
constexpr std::int64_t kStepNs = 24;  // one step of 1024 threads on one SM: 4096 steps take about 0.1 ms on an H200

template <class T>
T parameter(void** parameters, int at) {
  T value{};
  std::memcpy(&value, parameters[at], sizeof value);
  return value;
}

bool is_matrix(KernelKind kind) {
  return kind == KernelKind::kOperand || kind == KernelKind::kProduct || kind == KernelKind::kCompare;
}

void read_matrix_call(void** parameters, KernelCall* call) {
  int at = 1;
  if (call->kind == KernelKind::kCompare) {
    call->got = parameter<std::uint64_t>(parameters, at++);
    call->want = parameter<std::uint64_t>(parameters, at++);
  }
  const std::size_t numbers = call->kind == KernelKind::kCompare ? 2 : 8;
  for (std::size_t i = 0; i < numbers; ++i) call->numbers[i] = parameter<std::uint32_t>(parameters, at++);
  const std::size_t reals = call->kind == KernelKind::kCompare ? 2 : 1;
  for (std::size_t i = 0; i < reals; ++i) call->reals[i] = parameter<float>(parameters, at++);
}

// x → factor·x + addend, `times` times in a row.
struct Affine {
  std::uint32_t factor;
  std::uint32_t addend;
};
Affine repeated(std::uint32_t times) {
  Affine all{1, 0}, power{1664525u, 1013904223u};
  for (; times != 0; times >>= 1) {
    if ((times & 1u) != 0) all = {all.factor * power.factor, power.factor * all.addend + power.addend};
    power = {power.factor * power.factor, power.factor * power.addend + power.addend};
  }
  return all;
}

}  // namespace

std::optional<KernelKind> kernel_named(std::string_view name) {
  if (name == "tranche_spin") return KernelKind::kSpin;
  if (name == "tranche_compute") return KernelKind::kCompute;
  if (name == "tranche_tensor") return KernelKind::kTensor;
  if (name == "tranche_operand") return KernelKind::kOperand;
  if (name == "tranche_product") return KernelKind::kProduct;
  if (name == "tranche_compare") return KernelKind::kCompare;
  return std::nullopt;
}

KernelCall read_call(KernelKind kind, void** parameters) {
  KernelCall call;
  call.kind = kind;
  call.out = parameter<std::uint64_t>(parameters, 0);
  if (is_matrix(kind)) {
    read_matrix_call(parameters, &call);
    return call;
  }
  call.iterations = parameter<std::uint32_t>(parameters, 1);
  if (kind == KernelKind::kCompute) call.ran_on = parameter<std::uint64_t>(parameters, 2);
  return call;
}

std::vector<Range> touched(const KernelCall& call) {
  if (is_matrix(call.kind)) return touched_by_matrix(call);
  std::vector<Range> ranges{{call.out, 4 * call.blocks * call.threads_per_block}};
  if (call.ran_on != 0) ranges.push_back({call.ran_on, 4 * call.blocks});
  return ranges;
}

void compute(const KernelCall& call, std::uint32_t sms) {
  if (is_matrix(call.kind)) return compute_matrix(call);
  auto* out = reinterpret_cast<std::uint32_t*>(call.out);
  const auto words = static_cast<std::uint32_t>(touched(call).front().bytes / 4);
  if (call.kind == KernelKind::kTensor) {
    for (std::uint32_t i = 0; i < words; ++i) {
      const auto sum = static_cast<float>(i % call.threads_per_block + call.iterations);
      std::memcpy(&out[i], &sum, sizeof sum);
    }
    return;
  }
  const Affine steps = repeated(call.iterations);
  for (std::uint32_t i = 0; i < words; ++i) out[i] = steps.factor * i + steps.addend;
  auto* ran_on = reinterpret_cast<std::uint32_t*>(call.ran_on);
  for (std::uint32_t i = 0; ran_on != nullptr && i < call.blocks; ++i) ran_on[i] = i % std::max(1u, sms);
}

std::int64_t duration_ns(const KernelCall& call, std::uint32_t sms) {
  if (is_matrix(call.kind)) {  // 2 multiplications per nanosecond and SM: the probe's kernels are not optimised
    return kLaunchNs + static_cast<std::int64_t>(matrix_steps(call) / 2 / std::max(1u, sms));
  }
  const auto waves = static_cast<std::int64_t>((call.blocks + std::max(1u, sms) - 1) / std::max(1u, sms));
  return kLaunchNs +
         waves * (call.kind == KernelKind::kTensor ? kTensorStepNs : kStepNs) * std::int64_t{call.iterations};
}

}  // namespace tranche::sim
