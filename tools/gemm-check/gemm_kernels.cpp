#include "gemm-check/gemm_kernels.h"

// One element from its index: in %h the index, in %sd the seed; out %v. Spends %h and %t. operand_value() is the same.
#define ELEMENT                        \
  "  xor.b32 %h, %h, %sd;\n"           \
  "  mul.lo.u32 %h, %h, 0x9E3779B1;\n" \
  "  shr.u32 %t, %h, 15;\n"            \
  "  xor.b32 %h, %h, %t;\n"            \
  "  mul.lo.u32 %h, %h, 0x85EBCA6B;\n" \
  "  shr.u32 %t, %h, 13;\n"            \
  "  xor.b32 %h, %h, %t;\n"            \
  "  and.b32 %t, %h, %span;\n"         \
  "  sub.s32 %t, %t, %bias;\n"         \
  "  shr.u32 %h, %h, 8;\n"             \
  "  and.b32 %h, %h, %zeros;\n"        \
  "  setp.ne.u32 %z, %h, 0;\n"         \
  "  selp.b32 %t, 0, %t, %z;\n"        \
  "  cvt.rn.f32.s32 %v, %t;\n"         \
  "  mul.f32 %v, %v, %scale;\n"
#define ELEMENT_REGISTERS                            \
  "  .reg .pred %z;\n"                               \
  "  .reg .b32 %h, %t, %sd, %span, %bias, %zeros;\n" \
  "  .reg .f32 %v, %scale;\n"
#define ELEMENT_PARAMETERS(kernel)  \
  "  ld.param.u32 %span, [" kernel  \
  "_span];\n"                       \
  "  ld.param.u32 %bias, [" kernel  \
  "_bias];\n"                       \
  "  ld.param.u32 %zeros, [" kernel \
  "_zeros];\n"                      \
  "  ld.param.f32 %scale, [" kernel "_scale];\n"

// The product's tiles are 64 rows × 16 steps of a and of b. Element `q` of four of this thread: row tid mod 64, step
// tid / 64 + 4·q; beyond the matrix they are 0.
#define TILE_ELEMENT(offset, place)       \
  "  add.u32 %l, %step, " offset          \
  ";\n"                                   \
  "  add.u32 %l, %l, %k0;\n"              \
  "  setp.lt.u32 %inside, %l, %k;\n"      \
  "  and.pred %pa, %inside, %arow;\n"     \
  "  and.pred %pb, %inside, %brow;\n"     \
  "  add.u32 %h, %abase, %l;\n"           \
  "  mov.u32 %sd, %seeda;\n" ELEMENT      \
  "  selp.f32 %v, %v, 0f00000000, %pa;\n" \
  "  st.shared.f32 [%sa+" place           \
  "], %v;\n"                              \
  "  add.u32 %h, %bbase, %l;\n"           \
  "  mov.u32 %sd, %seedb;\n" ELEMENT      \
  "  selp.f32 %v, %v, 0f00000000, %pb;\n" \
  "  st.shared.f32 [%sb+" place "], %v;\n"
#define MULTIPLY_ROW(b)                        \
  "  fma.rn.f32 %c0" b ", %a0, %b" b ", %c0" b \
  ";\n"                                        \
  "  fma.rn.f32 %c1" b ", %a1, %b" b ", %c1" b \
  ";\n"                                        \
  "  fma.rn.f32 %c2" b ", %a2, %b" b ", %c2" b \
  ";\n"                                        \
  "  fma.rn.f32 %c3" b ", %a3, %b" b ", %c3" b ";\n"
#define CLEAR(b)    \
  "  mov.f32 %c0" b \
  ", 0f00000000;\n" \
  "  mov.f32 %c1" b \
  ", 0f00000000;\n" \
  "  mov.f32 %c2" b \
  ", 0f00000000;\n" \
  "  mov.f32 %c3" b ", 0f00000000;\n"
// Element (i0 + tx + 16·a, j0 + ty + 16·b) when it is inside: %i and %jm (j·m, 64 bits) are at hand.
#define STORE(a, b, rows)        \
  "  add.u32 %l, %i, " rows      \
  ";\n"                          \
  "  setp.lt.u32 %pa, %l, %m;\n" \
  "  and.pred %pa, %pa, %pb;\n"  \
  "  cvt.u64.u32 %at, %l;\n"     \
  "  add.u64 %at, %at, %jm;\n"   \
  "  shl.b64 %at, %at, 2;\n"     \
  "  add.u64 %at, %at, %out;\n"  \
  "  @%pa st.global.f32 [%at], %c" a b ";\n"
#define STORE_COLUMN(b, columns) \
  "  add.u32 %l, %j, " columns   \
  ";\n"                          \
  "  setp.lt.u32 %pb, %l, %n;\n" \
  "  mul.wide.u32 %jm, %l, %m;\n" STORE("0", b, "0") STORE("1", b, "16") STORE("2", b, "32") STORE("3", b, "48")

namespace tranche::gemm_check {

const char* const kGemmPtx =
    R"ptx(
.version 6.0
.target sm_50
.address_size 64

.visible .entry tranche_operand(
  .param .u64 tranche_operand_out,
  .param .u32 tranche_operand_count,
  .param .u32 tranche_operand_inner,
  .param .u32 tranche_operand_depth,
  .param .u32 tranche_operand_format,
  .param .u32 tranche_operand_seed,
  .param .u32 tranche_operand_span,
  .param .u32 tranche_operand_bias,
  .param .u32 tranche_operand_zeros,
  .param .f32 tranche_operand_scale
)
{
  .reg .pred %p, %direct, %f32, %bf16, %f16;
  .reg .b16 %half;
  .reg .b32 %count, %inner, %depth, %format, %seed, %s, %stride, %x, %y, %width;
  .reg .b64 %out, %at;
)ptx" ELEMENT_REGISTERS R"ptx(
  ld.param.u64 %out, [tranche_operand_out];
  ld.param.u32 %count, [tranche_operand_count];
  ld.param.u32 %inner, [tranche_operand_inner];
  ld.param.u32 %depth, [tranche_operand_depth];
  ld.param.u32 %format, [tranche_operand_format];
  ld.param.u32 %seed, [tranche_operand_seed];
)ptx" ELEMENT_PARAMETERS("tranche_operand") R"ptx(
  cvta.to.global.u64 %out, %out;
  mov.u32 %sd, %seed;
  setp.eq.u32 %direct, %inner, 0;
  setp.eq.u32 %f32, %format, 0;
  setp.eq.u32 %bf16, %format, 1;
  setp.eq.u32 %f16, %format, 2;
  mov.u32 %width, 2;
  @%f32 mov.u32 %width, 4;
  setp.eq.u32 %p, %format, 3;
  @%p mov.u32 %width, 1;
  mov.u32 %x, %ntid.x;
  mov.u32 %y, %ctaid.x;
  mov.u32 %s, %tid.x;
  mad.lo.u32 %s, %y, %x, %s;
  mov.u32 %y, %nctaid.x;
  mul.lo.u32 %stride, %x, %y;
  setp.ge.u32 %p, %s, %count;
  @%p bra operand_done;
operand_next:
  mov.u32 %h, %s;
  @%direct bra operand_index;
  rem.u32 %x, %s, %inner;
  div.u32 %y, %s, %inner;
  mad.lo.u32 %h, %x, %depth, %y;
operand_index:
)ptx" ELEMENT R"ptx(
  mul.wide.u32 %at, %s, %width;
  add.u64 %at, %at, %out;
  mov.b32 %x, %v;
  @%f32 bra operand_f32;
  @%bf16 bra operand_bf16;
  @%f16 bra operand_f16;
  setp.eq.u32 %p, %x, 0;
  shr.u32 %y, %x, 24;
  and.b32 %y, %y, 128;
  shr.u32 %x, %x, 20;
  and.b32 %x, %x, 2047;
  sub.u32 %x, %x, 960;
  or.b32 %x, %x, %y;
  selp.b32 %x, 0, %x, %p;
  st.global.u8 [%at], %x;
  bra operand_stored;
operand_f16:
  cvt.rn.f16.f32 %half, %v;
  st.global.b16 [%at], %half;
  bra operand_stored;
operand_bf16:
  shr.u32 %x, %x, 16;
  st.global.u16 [%at], %x;
  bra operand_stored;
operand_f32:
  st.global.f32 [%at], %v;
operand_stored:
  add.u32 %s, %s, %stride;
  setp.lt.u32 %p, %s, %count;
  @%p bra operand_next;
operand_done:
  ret;
}

.visible .entry tranche_product(
  .param .u64 tranche_product_out,
  .param .u32 tranche_product_m,
  .param .u32 tranche_product_n,
  .param .u32 tranche_product_k,
  .param .u32 tranche_product_seed_a,
  .param .u32 tranche_product_seed_b,
  .param .u32 tranche_product_span,
  .param .u32 tranche_product_bias,
  .param .u32 tranche_product_zeros,
  .param .f32 tranche_product_scale
)
{
  .shared .align 4 .b8 tile_a[4096];
  .shared .align 4 .b8 tile_b[4096];
  .reg .pred %more, %inside, %arow, %brow, %pa, %pb;
  .reg .b32 %m, %n, %k, %seeda, %seedb, %thread, %i0, %j0, %i, %j, %k0, %l, %row, %step, %abase, %bbase;
  .reg .b32 %sa, %sb, %ra, %rb, %pa_at, %pb_at, %left, %x, %y;
  .reg .b64 %out, %jm, %at;
  .reg .f32 %a0, %a1, %a2, %a3, %b0, %b1, %b2, %b3;
  .reg .f32 %c00, %c01, %c02, %c03, %c10, %c11, %c12, %c13, %c20, %c21, %c22, %c23, %c30, %c31, %c32, %c33;
)ptx" ELEMENT_REGISTERS R"ptx(
  ld.param.u64 %out, [tranche_product_out];
  ld.param.u32 %m, [tranche_product_m];
  ld.param.u32 %n, [tranche_product_n];
  ld.param.u32 %k, [tranche_product_k];
  ld.param.u32 %seeda, [tranche_product_seed_a];
  ld.param.u32 %seedb, [tranche_product_seed_b];
)ptx" ELEMENT_PARAMETERS("tranche_product") R"ptx(
  cvta.to.global.u64 %out, %out;
  mov.u32 %thread, %tid.x;
  add.u32 %x, %m, 63;
  shr.u32 %x, %x, 6;
  mov.u32 %y, %ctaid.x;
  rem.u32 %i0, %y, %x;
  shl.b32 %i0, %i0, 6;
  div.u32 %j0, %y, %x;
  shl.b32 %j0, %j0, 6;

  and.b32 %row, %thread, 63;
  shr.u32 %step, %thread, 6;
  add.u32 %x, %i0, %row;
  setp.lt.u32 %arow, %x, %m;
  mul.lo.u32 %abase, %x, %k;
  add.u32 %x, %j0, %row;
  setp.lt.u32 %brow, %x, %n;
  mul.lo.u32 %bbase, %x, %k;
  shl.b32 %x, %thread, 2;
  mov.u32 %sa, tile_a;
  add.u32 %sa, %sa, %x;
  mov.u32 %sb, tile_b;
  add.u32 %sb, %sb, %x;

  and.b32 %x, %thread, 15;
  shr.u32 %y, %thread, 4;
  add.u32 %i, %i0, %x;
  add.u32 %j, %j0, %y;
  shl.b32 %x, %x, 2;
  shl.b32 %y, %y, 2;
  mov.u32 %ra, tile_a;
  add.u32 %ra, %ra, %x;
  mov.u32 %rb, tile_b;
  add.u32 %rb, %rb, %y;
)ptx" CLEAR("0") CLEAR("1") CLEAR("2") CLEAR("3") R"ptx(
  mov.u32 %k0, 0;
product_tile:
)ptx" TILE_ELEMENT("0", "0") TILE_ELEMENT("4", "1024") TILE_ELEMENT("8", "2048") TILE_ELEMENT("12", "3072") R"ptx(
  bar.sync 0;
  mov.u32 %pa_at, %ra;
  mov.u32 %pb_at, %rb;
  mov.u32 %left, 16;
product_step:
  ld.shared.f32 %a0, [%pa_at];
  ld.shared.f32 %a1, [%pa_at+64];
  ld.shared.f32 %a2, [%pa_at+128];
  ld.shared.f32 %a3, [%pa_at+192];
  ld.shared.f32 %b0, [%pb_at];
  ld.shared.f32 %b1, [%pb_at+64];
  ld.shared.f32 %b2, [%pb_at+128];
  ld.shared.f32 %b3, [%pb_at+192];
)ptx" MULTIPLY_ROW("0") MULTIPLY_ROW("1") MULTIPLY_ROW("2") MULTIPLY_ROW("3") R"ptx(
  add.u32 %pa_at, %pa_at, 256;
  add.u32 %pb_at, %pb_at, 256;
  sub.u32 %left, %left, 1;
  setp.ne.u32 %more, %left, 0;
  @%more bra product_step;
  bar.sync 0;
  add.u32 %k0, %k0, 16;
  setp.lt.u32 %more, %k0, %k;
  @%more bra product_tile;
)ptx" STORE_COLUMN("0", "0") STORE_COLUMN("1", "16") STORE_COLUMN("2", "32") STORE_COLUMN("3", "48") R"ptx(
  ret;
}

.visible .entry tranche_compare(
  .param .u64 tranche_compare_tally,
  .param .u64 tranche_compare_got,
  .param .u64 tranche_compare_want,
  .param .u32 tranche_compare_count,
  .param .u32 tranche_compare_format,
  .param .f32 tranche_compare_relative,
  .param .f32 tranche_compare_absolute
)
{
  .reg .pred %p, %f32, %bf16;
  .reg .b16 %half;
  .reg .b32 %count, %format, %s, %stride, %x, %y, %unwritten, %wrong;
  .reg .b64 %tally, %got, %want, %at;
  .reg .f32 %relative, %absolute, %value, %right, %allowed;

  ld.param.u64 %tally, [tranche_compare_tally];
  ld.param.u64 %got, [tranche_compare_got];
  ld.param.u64 %want, [tranche_compare_want];
  ld.param.u32 %count, [tranche_compare_count];
  ld.param.u32 %format, [tranche_compare_format];
  ld.param.f32 %relative, [tranche_compare_relative];
  ld.param.f32 %absolute, [tranche_compare_absolute];
  cvta.to.global.u64 %tally, %tally;
  cvta.to.global.u64 %got, %got;
  cvta.to.global.u64 %want, %want;
  setp.eq.u32 %f32, %format, 0;
  setp.eq.u32 %bf16, %format, 1;
  mov.u32 %unwritten, 0;
  mov.u32 %wrong, 0;
  mov.u32 %x, %ntid.x;
  mov.u32 %y, %ctaid.x;
  mov.u32 %s, %tid.x;
  mad.lo.u32 %s, %y, %x, %s;
  mov.u32 %y, %nctaid.x;
  mul.lo.u32 %stride, %x, %y;
  setp.ge.u32 %p, %s, %count;
  @%p bra compare_done;
compare_next:
  @%f32 bra compare_f32;
  mul.wide.u32 %at, %s, 2;
  add.u64 %at, %at, %got;
  ld.global.u16 %x, [%at];
  setp.eq.u32 %p, %x, 65535;
  @%p bra compare_poison;
  @%bf16 bra compare_bf16;
  cvt.u16.u32 %half, %x;
  cvt.f32.f16 %value, %half;
  bra compare_value;
compare_bf16:
  shl.b32 %x, %x, 16;
  mov.b32 %value, %x;
  bra compare_value;
compare_f32:
  mul.wide.u32 %at, %s, 4;
  add.u64 %at, %at, %got;
  ld.global.u32 %x, [%at];
  setp.eq.u32 %p, %x, 0xFFFFFFFF;
  @%p bra compare_poison;
  mov.b32 %value, %x;
compare_value:
  mul.wide.u32 %at, %s, 4;
  add.u64 %at, %at, %want;
  ld.global.f32 %right, [%at];
  sub.f32 %value, %value, %right;
  abs.f32 %value, %value;
  abs.f32 %right, %right;
  fma.rn.f32 %allowed, %right, %relative, %absolute;
  setp.le.f32 %p, %value, %allowed;
  @%p bra compare_on;
  add.u32 %wrong, %wrong, 1;
  bra compare_on;
compare_poison:
  add.u32 %unwritten, %unwritten, 1;
compare_on:
  add.u32 %s, %s, %stride;
  setp.lt.u32 %p, %s, %count;
  @%p bra compare_next;
compare_done:
  setp.eq.u32 %p, %unwritten, 0;
  @!%p red.global.add.u32 [%tally], %unwritten;
  setp.eq.u32 %p, %wrong, 0;
  @!%p red.global.add.u32 [%tally+4], %wrong;
  ret;
}
)ptx";

}  // namespace tranche::gemm_check
