#pragma once
// The probe's GPU code as PTX text, which every driver since CUDA 9 compiles for its own GPU (ISA 6.0, sm_50 and
// newer), and the same arithmetic for the host, so that what the GPU wrote can be checked. Pure; no toolkit is needed.
//
//   tranche_compute(u64 out, u32 iterations, u64 sms)
//     thread i of the grid: out[i] = compute_value(i, iterations); no memory traffic but one store, so a block occupies
//     an SM for a time that it alone decides. Where `sms` is not 0, block b: sms[b] = number of the SM it runs on
//   tranche_tensor(u64 out, u32 iterations)
//     thread i of the grid: out[i] = tensor_value(i, iterations), by bf16 products on tensor cores (a module of its
//     own, kTensorPtx: ISA 7.0, sm_80 and newer). Killed in the middle it kills its neighbours under MPS as frameworks'
//     products do (docs/internals/evidence/stopping.md)
//
// All are launched with kThreadsPerBlock threads in x: 32 warps keep the integer pipes of one SM full, so one block
// in flight per SM is already full speed and blocks per second grow with the number of SMs.
#include <bit>
#include <cstdint>

namespace tranche::probe {

inline constexpr const char* kComputeKernel = "tranche_compute";
inline constexpr const char* kTensorKernel = "tranche_tensor";
inline constexpr unsigned kThreadsPerBlock = 1024;
inline constexpr int kTensorCapability = 8;  // major, from which kTensorPtx compiles

// What a thread holds after `iterations` steps x → x·1664525 + 1013904223 from its own index; O(log iterations).
constexpr std::uint32_t compute_value(std::uint32_t index, std::uint32_t iterations) {
  std::uint32_t factor = 1, addend = 0;  // of the steps taken so far: x → factor·x + addend
  std::uint32_t step_factor = 1664525u, step_addend = 1013904223u;
  for (std::uint32_t left = iterations; left != 0; left >>= 1) {
    if (left & 1u) {
      addend = step_factor * addend + step_addend;
      factor *= step_factor;
    }
    step_addend = step_factor * step_addend + step_addend;
    step_factor *= step_factor;
  }
  return factor * index + addend;
}

// The bits of a single-precision number: the thread's number within its block and one for each product (16 times 1/16),
// exact below 2^24.
constexpr std::uint32_t tensor_value(std::uint32_t index, std::uint32_t iterations) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(index % kThreadsPerBlock + iterations));
}

inline constexpr const char* kPtx = R"ptx(
.version 6.0
.target sm_50
.address_size 64

.visible .entry tranche_compute(
  .param .u64 tranche_compute_out,
  .param .u32 tranche_compute_iterations,
  .param .u64 tranche_compute_sms
)
{
  .reg .pred %p<5>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<9>;

  ld.param.u64 %rd1, [tranche_compute_out];
  ld.param.u32 %r1, [tranche_compute_iterations];
  ld.param.u64 %rd5, [tranche_compute_sms];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r3, %r2, %r4;
  mov.u32 %r6, %r5;
  mov.u32 %r7, 1664525;
  mov.u32 %r8, 1013904223;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra compute_done;
compute_next:
  mad.lo.u32 %r6, %r6, %r7, %r8;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra compute_next;
compute_done:
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r6;
  setp.eq.u64 %p3, %rd5, 0;
  setp.ne.or.u32 %p4, %r4, 0, %p3;
  @%p4 ret;
  cvta.to.global.u64 %rd6, %rd5;
  mov.u32 %r9, %smid;
  mul.wide.u32 %rd7, %r3, 4;
  add.s64 %rd8, %rd6, %rd7;
  st.global.u32 [%rd8], %r9;
  ret;
}
)ptx";

inline constexpr const char* kTensorPtx = R"ptx(
.version 7.0
.target sm_80
.address_size 64

.visible .entry tranche_tensor(
  .param .u64 tranche_tensor_out,
  .param .u32 tranche_tensor_iterations
)
{
  .reg .pred %p<3>;
  .reg .b32 %r<10>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<6>;

  ld.param.u64 %rd1, [tranche_tensor_out];
  ld.param.u32 %r1, [tranche_tensor_iterations];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r3, %r2, %r4;
  cvt.rn.f32.u32 %f1, %r4;
  mov.f32 %f2, %f1;
  mov.f32 %f3, %f1;
  mov.f32 %f4, %f1;
  mov.b32 %r6, 0x3F803F80;
  mov.b32 %r7, 0x3D803D80;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra tensor_done;
tensor_next:
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r6, %r6, %r6, %r6}, {%r7, %r7}, {%f1, %f2, %f3, %f4};
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra tensor_next;
tensor_done:
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  mov.b32 %r8, %f1;
  st.global.u32 [%rd4], %r8;
  ret;
}
)ptx";

}  // namespace tranche::probe
