#pragma once
// The kernels that a simulated GPU can run, by name, and their arithmetic on the CPU. Their contract is the comment on
// the PTX of src/probe/kernels.h and tools/gemm-check/gemm_kernels.h; it is implemented a second time here on
// purpose, so that the probe checks against independent arithmetic. Pure except for the memory they write.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tranche::sim {

enum class KernelKind {
  kSpin,     // (u64 out, u32 iterations)           out[thread] = after that many steps of x·1664525 + 1013904223 from
             // its index; of tests/gpu/cuda_client.py
  kCompute,  // (u64 out, u32 iterations, u64 sms)  the same, and sms[block] = the SM it ran on, unless sms is 0
  kTensor,   // (u64 out, u32 iterations)        out[thread] = the bits of float(thread in block + iterations), tensor
             // cores
  kOperand,  // a matrix of small numbers            sim_gemm_kernels.cpp
  kProduct,  // the product of two such              the same
  kCompare,  // two matrices compared                the same
};
std::optional<KernelKind> kernel_named(std::string_view name);

struct KernelCall {
  KernelKind kind{};
  std::uint64_t out = 0;
  std::uint32_t iterations = 0;
  std::uint64_t ran_on = 0;  // kCompute: its third parameter
  std::uint64_t got = 0;     // kCompare reads these two
  std::uint64_t want = 0;
  std::array<std::uint32_t, 9> numbers{};  // of a matrix kernel, in the order of its parameters …
  std::array<float, 2> reals{};            // … and of the following ones
  std::uint64_t blocks = 0;
  std::uint32_t threads_per_block = 0;
};
KernelCall read_call(KernelKind kind, void** parameters);

struct Range {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
std::vector<Range> touched(const KernelCall& call);
void compute(const KernelCall& call, std::uint32_t sms);              // touched(call) must be mapped
std::int64_t duration_ns(const KernelCall& call, std::uint32_t sms);  // on that many SMs, one block per SM at a time

// The three of sim_gemm_kernels.cpp.
std::vector<Range> touched_by_matrix(const KernelCall& call);
void compute_matrix(const KernelCall& call);
std::uint64_t matrix_steps(const KernelCall& call);  // elements, or multiplications of a product

}  // namespace tranche::sim
