#include "gemm-check/gemm_run.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "gemm-check/gemm_kernels.h"
#include "gemm-check/multiplier.h"
#include "os/clock/clock.h"

namespace tranche::gemm_check {
namespace {

constexpr std::uint32_t kSeedA = 0x5eed0au, kSeedB = 0xb5eedu;

struct GemmKernels {
  CudaFunction operand = nullptr;
  CudaFunction product = nullptr;
  CudaFunction compare = nullptr;
};

std::uint64_t elements(std::uint32_t rows, std::uint32_t columns) {
  return std::uint64_t{rows} * columns;
}

// One shape with its inputs, its output and one reference a draw: those serve every type and layout.
class Bench {
 public:
  static Result<Bench> make(const CudaLibrary& cuda, const GemmKernels& kernels, const GemmContext& context,
                            const GemmShape& shape, std::uint32_t widest) {
    TRY(DeviceMemory a, DeviceMemory::allocate(cuda, elements(shape.m, shape.k) * widest));
    TRY(DeviceMemory b, DeviceMemory::allocate(cuda, elements(shape.k, shape.n) * widest));
    TRY(DeviceMemory c, DeviceMemory::allocate(cuda, elements(shape.m, shape.n) * widest));
    TRY(DeviceMemory whole, DeviceMemory::allocate(cuda, elements(shape.m, shape.n) * sizeof(float)));
    TRY(DeviceMemory fractions, DeviceMemory::allocate(cuda, elements(shape.m, shape.n) * sizeof(float)));
    TRY(DeviceMemory tally, DeviceMemory::allocate(cuda, 2 * sizeof(std::uint32_t)));
    Bench bench(cuda, kernels, context, shape,
                {std::move(a), std::move(b), std::move(c), std::move(whole), std::move(fractions), std::move(tally)});
    TRY_STATUS(bench.refer(whole_numbers(shape.k), bench.memory_.whole.address()));
    TRY_STATUS(bench.refer(kSixteenths, bench.memory_.fractions.address()));
    return bench;
  }

  // Fills in what `one` found. An error of cuBLAS is its note, one of CUDA ours.
  Status run(Multiplier& multiplier, GemmCase& one) {
    const TypeFormats formats = formats_of(one.type);
    const Draw whole = whole_numbers(shape_.k);
    TRY(const bool done, product(multiplier, one, formats, whole, memory_.whole.address(), 0, 0));
    if (!done) return {};
    // Rounding on output, and again where parts are added up in the output's format (standard deviation √k/3).
    const double relative = formats.out == Format::kF32 ? 0 : 2 * formats.precision;
    const double absolute = formats.out == Format::kF32 ? 0 : 2 * formats.precision * std::sqrt(shape_.k) / 3;
    TRY(const bool again, product(multiplier, one, formats, kSixteenths, memory_.fractions.address(),
                                  static_cast<float>(relative), static_cast<float>(absolute)));
    if (again) one.outcome = one.unwritten + one.wrong == 0 ? GemmOutcome::kRight : GemmOutcome::kWrong;
    return {};
  }

 private:
  struct Memory {
    DeviceMemory a, b, c, whole, fractions, tally;
  };
  Bench(const CudaLibrary& cuda, const GemmKernels& kernels, const GemmContext& context, const GemmShape& shape,
        Memory memory)
      : cuda_(&cuda), kernels_(&kernels), context_(&context), shape_(shape), memory_(std::move(memory)) {}

  Status start(CudaFunction function, std::uint64_t blocks, void** parameters, const char* name) const {
    const int code = cuda_->functions().launch(function, static_cast<unsigned>(blocks), 1, 1, kGemmThreads, 1, 1, 0,
                                               nullptr, parameters, nullptr);
    if (code != kCudaSuccess) return std::unexpected(cuda_->error(code, "a kernel cannot be started", name));
    return {};
  }
  Status wait(const char* name) const {
    const int code = cuda_->functions().context_synchronize();
    if (code != kCudaSuccess) return std::unexpected(cuda_->error(code, "a product or kernel failed", name));
    return {};
  }
  std::uint64_t grid(std::uint64_t count) const {
    return std::clamp<std::uint64_t>((count + kGemmThreads - 1) / kGemmThreads, 1, std::uint64_t{context_->sms} * 8);
  }

  Status refer(Draw draw, CudaAddress out) {
    std::uint32_t m = shape_.m, n = shape_.n, k = shape_.k, seed_a = kSeedA, seed_b = kSeedB;
    void* parameters[] = {&out, &m, &n, &k, &seed_a, &seed_b, &draw.span, &draw.bias, &draw.zeros, &draw.scale};
    TRY_STATUS(start(kernels_->product, product_blocks(m, n), parameters, kProductKernel));
    return wait(kProductKernel);
  }

  // `stored_rows` other than 0: the matrix is stored column by column with that many rows.
  Status write(CudaAddress out, std::uint64_t count, std::uint32_t stored_rows, Format format, std::uint32_t seed,
               Draw draw) {
    auto number = static_cast<std::uint32_t>(count), depth = shape_.k, as = static_cast<std::uint32_t>(format);
    void* parameters[] = {&out,  &number,    &stored_rows, &depth,      &as,
                          &seed, &draw.span, &draw.bias,   &draw.zeros, &draw.scale};
    return start(kernels_->operand, grid(count), parameters, kOperandKernel);
  }

  Status compare(CudaAddress want, Format format, float relative, float absolute, GemmCase& one) {
    CudaAddress tally = memory_.tally.address(), got = memory_.c.address();
    const std::uint64_t count = elements(shape_.m, shape_.n);
    auto number = static_cast<std::uint32_t>(count), as = static_cast<std::uint32_t>(format);
    TRY_STATUS(set(tally, 0, 2 * sizeof(std::uint32_t)));
    void* parameters[] = {&tally, &got, &want, &number, &as, &relative, &absolute};
    TRY_STATUS(start(kernels_->compare, grid(count), parameters, kCompareKernel));
    TRY_STATUS(wait(kCompareKernel));
    TRY(const std::vector<std::uint32_t> found, memory_.tally.read(2));
    one.elements += count;
    one.unwritten += found[0];
    one.wrong += found[1];
    return {};
  }

  Status set(CudaAddress to, unsigned char value, std::uint64_t bytes) const {
    const int code = cuda_->functions().memory_set(to, value, bytes);
    if (code != kCudaSuccess) return std::unexpected(cuda_->error(code, "memory cannot be set", "cuMemsetD8"));
    return {};
  }

  // false: cuBLAS would not, and one.note says why.
  Result<bool> product(Multiplier& multiplier, GemmCase& one, const TypeFormats& formats, Draw draw, CudaAddress want,
                       float relative, float absolute) {
    const CudaAddress a = memory_.a.address(), b = memory_.b.address(), c = memory_.c.address();
    TRY_STATUS(write(a, elements(shape_.m, shape_.k), one.transposed ? 0 : shape_.m, formats.in, kSeedA, draw));
    TRY_STATUS(write(b, elements(shape_.k, shape_.n), 0, formats.in, kSeedB, draw));
    TRY_STATUS(set(c, 0xff, elements(shape_.m, shape_.n) * bytes_of(formats.out)));  // NaN in every format
    TRY_STATUS(wait(kOperandKernel));
    const MonoTime begin = os::mono_now();
    if (const Status started = multiplier.multiply(shape_, one.type, one.transposed, a, b, c); !started) {
      one.note = to_string(started.error());
      return false;
    }
    TRY_STATUS(wait("the product"));
    const double seconds = std::chrono::duration<double>(os::mono_now() - begin).count();
    const double operations = 2.0 * shape_.m * shape_.n * shape_.k;
    one.gflops = std::max(one.gflops, operations / std::max(seconds, 1e-9) / 1e9);
    TRY_STATUS(compare(want, formats.out, relative, absolute, one));
    return true;
  }

  const CudaLibrary* cuda_;
  const GemmKernels* kernels_;
  const GemmContext* context_;
  GemmShape shape_;
  Memory memory_;
};

Result<GemmKernels> load_kernels(const CudaLibrary& cuda) {
  TRY(CudaModule module, compile(cuda, kGemmPtx));
  GemmKernels kernels;
  TRY(kernels.operand, find_kernel(cuda, module, kOperandKernel));
  TRY(kernels.product, find_kernel(cuda, module, kProductKernel));
  TRY(kernels.compare, find_kernel(cuda, module, kCompareKernel));
  return kernels;
}

// "" = cuBLAS can be asked.
std::string obstacle(const GemmCase& one, const GemmContext& context) {
  const int capability = context.capability_major * 10 + context.capability_minor;
  if (one.type == GemmType::kFp8) {
    if (capability < 89) return "needs compute capability 8.9";
    if (one.shape.m % 16 != 0 || one.shape.n % 16 != 0 || one.shape.k % 16 != 0) return "fp8 needs multiples of 16";
  }
  if ((one.type == GemmType::kBf16 || one.type == GemmType::kTf32) && capability < 80)
    return "needs compute capability 8.0";
  return {};
}

std::vector<GemmCase> cases_of(const GemmOptions& options, const GemmShape& shape) {
  std::vector<GemmCase> cases;
  for (const GemmType type : options.types) {
    for (const bool transposed : {false, true}) {
      if (type == GemmType::kFp8 && !transposed) continue;  // cuBLASLt takes fp8 as TN only
      GemmCase one;
      one.shape = shape;
      one.type = type;
      one.transposed = transposed;
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

std::uint32_t widest_of(const GemmOptions& options) {
  std::uint32_t widest = 1;
  for (const GemmType type : options.types) {
    widest = std::max({widest, bytes_of(formats_of(type).in), bytes_of(formats_of(type).out)});
  }
  return widest;
}

class Run {
 public:
  Run(const CudaLibrary& cuda, const GemmOptions& options, const GemmContext& context, const GemmKernels& kernels,
      Multiplier& multiplier)
      : cuda_(cuda), options_(options), context_(context), kernels_(kernels), multiplier_(multiplier) {}

  Status shape(const GemmShape& shape, GemmReport& report) const {
    auto cases = cases_of(options_, shape);
    stage("computing the reference of " + to_string(shape));
    Result<Bench> bench = Bench::make(cuda_, kernels_, context_, shape, widest_of(options_));
    if (!bench && bench.error().code != kCudaOutOfMemory) return std::unexpected(std::move(bench).error());
    for (GemmCase& one : cases) {
      one.note = context_.stop && context_.stop() ? "asked to end" : obstacle(one, context_);
      if (one.note.empty() && !bench) one.note = "not enough memory: " + cuda_.name_of(bench.error().code);
      if (one.note.empty()) {
        stage("multiplying " + to_string(shape) + " " + std::string(to_string(one.type)));
        TRY_STATUS(bench->run(multiplier_, one));
      }
      report.cases.push_back(std::move(one));
    }
    return {};
  }

 private:
  void stage(const std::string& name) const {
    if (context_.on_stage) context_.on_stage(name.c_str());
  }

  const CudaLibrary& cuda_;
  const GemmOptions& options_;
  const GemmContext& context_;
  const GemmKernels& kernels_;
  Multiplier& multiplier_;
};

}  // namespace

Result<GemmReport> run_gemm(const CudaLibrary& cuda, const GemmOptions& options, const GemmContext& context) {
  GemmReport report;
  const MonoTime begin = os::mono_now();
  const auto cublas = CublasLibrary::open(cublas_places(options.cublas, options.driver_root));
  if (!cublas) {
    report.not_checked = to_string(cublas.error());
    return report;
  }
  report.library = (*cublas)->path();
  if (cuda.functions().memory_set == nullptr) return fail(Kind::kUnsupported, "cuMemsetD8_v2 is missing", cuda.path());
  TRY(const GemmKernels kernels, load_kernels(cuda));
  if (context.on_stage) context.on_stage("starting cuBLAS (cublasCreate)");
  const auto multiplier = Multiplier::open(cuda, **cublas);
  if (!multiplier) {
    report.not_checked = "cuBLAS does not start: " + to_string(multiplier.error());
    return report;
  }
  report.version = (*multiplier)->version();
  const Run run(cuda, options, context, kernels, **multiplier);
  for (const GemmShape& shape : options.shapes) TRY_STATUS(run.shape(shape, report));
  if (report.outcome() == GemmOutcome::kNotChecked) report.not_checked = "none of the products could be checked";
  report.seconds = std::chrono::duration<double>(os::mono_now() - begin).count();
  return report;
}

}  // namespace tranche::gemm_check
