// libcublasLt.so.13 of a simulated node: descriptors, one heuristic, and cublasLtMatmul on the CPU. fp8 with the
// library's constraints: a transposed, b not, sides multiples of 16.
#include <cstddef>
#include <cstring>

#include "standins/cuda/cublas/matrix.h"

using namespace tranche::sim;

struct SimLt {};
struct SimDesc {
  int transposed[2] = {0, 0};
};
struct SimLayout {
  int type = 0;
  std::uint64_t rows = 0, columns = 0, ld = 0;
};
struct SimPreference {
  std::uint64_t workspace = 0;
};
struct SimHeuristic {
  std::uint64_t algo[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

namespace {

bool takes(const SimDesc& desc, const SimLayout& a, const SimLayout& b, const SimLayout& c) {
  NumberFormat in{}, out{};
  if (!format_of(a.type, &in) || !format_of(c.type, &out) || a.type != b.type) return false;
  if (in != NumberFormat::kE4m3) return true;
  const bool sixteens = a.rows % 16 == 0 && a.columns % 16 == 0 && b.columns % 16 == 0;
  return desc.transposed[0] == 1 && desc.transposed[1] == 0 && sixteens && out != NumberFormat::kE4m3;
}

}  // namespace

extern "C" {

int cublasLtCreate(SimLt** handle) {
  *handle = new SimLt;
  return kStatusSuccess;
}
int cublasLtDestroy(SimLt* handle) {
  delete handle;
  return kStatusSuccess;
}
int cublasLtMatmulDescCreate(SimDesc** desc, int /*compute*/, int /*scale*/) {
  *desc = new SimDesc;
  return kStatusSuccess;
}
int cublasLtMatmulDescSetAttribute(SimDesc* desc, int attribute, const void* value, std::size_t size) {
  if ((attribute != 3 && attribute != 4) || size != sizeof(int)) return kStatusInvalid;
  std::memcpy(&desc->transposed[attribute - 3], value, size);
  return kStatusSuccess;
}
int cublasLtMatmulDescDestroy(SimDesc* desc) {
  delete desc;
  return kStatusSuccess;
}
int cublasLtMatrixLayoutCreate(SimLayout** layout, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t ld) {
  *layout = new SimLayout{type, rows, columns, static_cast<std::uint64_t>(ld)};
  return kStatusSuccess;
}
int cublasLtMatrixLayoutDestroy(SimLayout* layout) {
  delete layout;
  return kStatusSuccess;
}
int cublasLtMatmulPreferenceCreate(SimPreference** preference) {
  *preference = new SimPreference;
  return kStatusSuccess;
}
int cublasLtMatmulPreferenceSetAttribute(SimPreference* preference, int attribute, const void* value,
                                         std::size_t size) {
  if (attribute != 1 || size != sizeof preference->workspace) return kStatusInvalid;
  std::memcpy(&preference->workspace, value, size);
  return kStatusSuccess;
}
int cublasLtMatmulPreferenceDestroy(SimPreference* preference) {
  delete preference;
  return kStatusSuccess;
}

int cublasLtMatmulAlgoGetHeuristic(SimLt* /*handle*/, SimDesc* desc, SimLayout* a, SimLayout* b, SimLayout* c,
                                   SimLayout* /*d*/, SimPreference* /*preference*/, int asked, SimHeuristic* found,
                                   int* count) {
  *count = 0;
  if (asked < 1) return kStatusInvalid;
  if (!takes(*desc, *a, *b, *c)) return kStatusNotSupported;
  *found = {};
  found->algo[0] = 1;
  *count = 1;
  return kStatusSuccess;
}

int cublasLtMatmul(SimLt* /*handle*/, SimDesc* desc, const void* /*alpha*/, const void* a, SimLayout* a_layout,
                   const void* b, SimLayout* b_layout, const void* /*beta*/, const void* /*c*/, SimLayout* /*c_layout*/,
                   void* d, SimLayout* d_layout, const std::uint64_t* algo, void* /*workspace*/,
                   std::size_t /*workspace_bytes*/, void* /*stream*/) {
  if (!takes(*desc, *a_layout, *b_layout, *d_layout) || algo == nullptr || *algo != 1) return kStatusNotSupported;
  MatrixProduct product;
  product.m = d_layout->rows;
  product.n = d_layout->columns;
  product.k = desc->transposed[0] != 0 ? a_layout->rows : a_layout->columns;
  product.a_transposed = desc->transposed[0] != 0;
  product.b_transposed = desc->transposed[1] != 0;
  product.a = a;
  product.b = b;
  product.c = d;
  product.lda = a_layout->ld;
  product.ldb = b_layout->ld;
  product.ldc = d_layout->ld;
  format_of(a_layout->type, &product.in);
  format_of(d_layout->type, &product.out);
  return multiply(product);
}
}
