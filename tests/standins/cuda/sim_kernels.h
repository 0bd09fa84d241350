#pragma once
// The kernels that a simulated GPU can run, by name, and their arithmetic on the CPU. Their contract is the comment on
// the PTX of src/probe/kernels.h; it is written out a second time here on purpose, so that the probe checks against an
// arithmetic that is not its own. Pure but for the memory they write.
#include <cstdint>
#include <optional>
#include <string_view>

namespace tranche::sim {

enum class KernelKind {
  kFill,  // (u64 out, u32 count, u32 seed)     out[i] = mix(i, seed)
  kSpin,  // (u64 out, u32 iterations)          out[thread] = after that many steps of x·1664525 + 1013904223 from its
          // index
  kSmid,  // (u64 out, u32 iterations)          out[block] = the SM it ran on
};
std::optional<KernelKind> kernel_named(std::string_view name);

struct KernelCall {
  KernelKind kind{};
  std::uint64_t out = 0;
  std::uint32_t a = 0;  // count or iterations
  std::uint32_t b = 0;  // seed
  std::uint64_t blocks = 0;
  std::uint32_t threads_per_block = 0;
};
KernelCall read_call(KernelKind kind, void** parameters);

std::uint64_t bytes_written(const KernelCall& call);                  // from `out` on
void compute(const KernelCall& call, std::uint32_t sms);              // bytes_written(call) must be writable
std::int64_t duration_ns(const KernelCall& call, std::uint32_t sms);  // on that many SMs, one block per SM at a time

}  // namespace tranche::sim
