#include "standins/cuda/cublas/matrix.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "standins/cuda/cublas/wrong_counts.h"

namespace tranche::sim {
namespace {

constexpr int kAttributeMultiprocessors = 16;

template <class F>
F* driver_function(const char* name) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<F*>(::dlsym(driver, name));
}

// The SMs of this process; 0 = no driver, or no context.
std::uint32_t sms_here() {
  auto* device_of_context = driver_function<int(int*)>("cuCtxGetDevice");
  auto* attribute = driver_function<int(int*, int, int)>("cuDeviceGetAttribute");
  int device = 0, sms = 0;
  if (device_of_context == nullptr || attribute == nullptr || device_of_context(&device) != 0) return 0;
  return attribute(&sms, kAttributeMultiprocessors, device) == 0 && sms > 0 ? static_cast<std::uint32_t>(sms) : 0;
}

// The measurements are of an H200: other GPUs are wrong only if configured.
bool wrong_here(std::uint32_t sms) {
  if (const char* spans = std::getenv("TRANCHE_SIM_WRONG_SMS"); spans != nullptr && *spans != '\0')
    return computes_wrong(sms, spans);
  auto* device_of_context = driver_function<int(int*)>("cuCtxGetDevice");
  auto* device_name = driver_function<int(char*, int, int)>("cuDeviceGetName");
  int device = 0;
  std::array<char, 128> name{};
  const bool named = device_of_context(&device) == 0 && device_name(name.data(), 127, device) == 0;
  return named && std::string_view(name.data()).find("H200") != std::string_view::npos && computes_wrong(sms, "");
}

bool well() {
  auto* synchronize = driver_function<int()>("cuCtxSynchronize");
  return synchronize != nullptr && synchronize() == 0;
}

std::vector<float> rows_of(const void* matrix, std::uint64_t rows, std::uint64_t depth, std::uint64_t ld, bool by_row,
                           NumberFormat format) {
  std::vector<float> out(rows * depth);
  for (std::uint64_t i = 0; i < rows; ++i) {
    for (std::uint64_t l = 0; l < depth; ++l) {
      out[i * depth + l] = load_number(matrix, by_row ? l + i * ld : i + l * ld, format);
    }
  }
  return out;
}

}  // namespace

bool format_of(int cuda_type, NumberFormat* format) {
  switch (cuda_type) {
    case 0:
      *format = NumberFormat::kF32;
      return true;
    case 2:
      *format = NumberFormat::kF16;
      return true;
    case 14:
      *format = NumberFormat::kBf16;
      return true;
    case 28:
      *format = NumberFormat::kE4m3;
      return true;
    default:
      return false;
  }
}

int multiply(const MatrixProduct& p) {
  const std::uint32_t sms = sms_here();
  if (sms == 0) return kStatusNotInitialized;
  if (!well()) return kStatusExecutionFailed;
  const bool wrong = p.out != NumberFormat::kF32 && wrong_here(sms);
  const std::uint64_t columns = wrong ? p.n - (p.n + 3) / 4 : p.n;
  const std::vector<float> a = rows_of(p.a, p.m, p.k, p.lda, p.a_transposed, p.in);
  const std::vector<float> b = rows_of(p.b, p.n, p.k, p.ldb, !p.b_transposed, p.in);
  for (std::uint64_t j = 0; j < columns; ++j) {
    for (std::uint64_t i = 0; i < p.m; ++i) {
      float sum = 0;
      for (std::uint64_t l = 0; l < p.k; ++l) sum += a[i * p.k + l] * b[j * p.k + l];
      store_number(p.c, i + j * p.ldc, p.out, sum);
    }
  }
  return kStatusSuccess;
}

}  // namespace tranche::sim
