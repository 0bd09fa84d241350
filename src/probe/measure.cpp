#include "probe/measure.h"

#include <algorithm>
#include <set>

#include "os/clock/clock.h"
#include "probe/kernels.h"

namespace tranche::probe {
namespace {

constexpr std::uint32_t kFillWords = 4u << 20;  // 16 MiB: fits into the smallest share
constexpr std::uint32_t kFillSeed = 0x7a11c3u;
constexpr std::uint32_t kSpinIterations = 4096;    // about 0.1 ms: short enough that dying in it hurts no neighbour
constexpr std::uint32_t kSmidIterations = 40'000;  // long enough that blocks spread over all SMs before one ends
// About 10 ms, as a framework's product in a small share: long enough that dying in it would hurt the neighbours.
constexpr std::uint32_t kTensorIterations = 128 << 10;
constexpr std::uint64_t kLimitStep = 2ull << 20;  // the driver hands out memory in pieces of 2 MiB

Status launch(const CudaLibrary& cuda, CudaFunction function, std::uint32_t blocks, void** parameters,
              const char* name) {
  return cuda.check(
      cuda.functions().launch(function, blocks, 1, 1, kThreadsPerBlock, 1, 1, 0, nullptr, parameters, nullptr),
      "a kernel cannot be started", name);
}

Status wait(const CudaLibrary& cuda, const char* name) {
  return cuda.check(cuda.functions().context_synchronize(), "a kernel failed", name);
}

std::uint32_t blocks_of(const ProbeReport& report, std::uint32_t asked) {
  return asked != 0 ? asked : std::max<std::uint32_t>(report.sms_by_attribute, 1);
}

}  // namespace

Result<DeviceMemory> DeviceMemory::allocate(const CudaLibrary& cuda, std::size_t bytes) {
  CudaAddress address = 0;
  TRY_STATUS(cuda.check(cuda.functions().memory_allocate(&address, bytes), "cannot allocate " + to_string(Bytes{bytes}),
                        "cuMemAlloc"));
  return DeviceMemory(cuda, address);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : cuda_(other.cuda_), address_(std::exchange(other.address_, 0)) {}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) cuda_->functions().memory_free(address_);
}

Result<std::vector<std::uint32_t>> DeviceMemory::read(std::size_t words) const {
  std::vector<std::uint32_t> host(words);
  TRY_STATUS(cuda_->check(cuda_->functions().copy_to_host(host.data(), address_, words * sizeof(std::uint32_t)),
                          "cannot copy from the GPU", "cuMemcpyDtoH"));
  return host;
}

Status check_answers(const CudaLibrary& cuda, const Kernels& kernels, ProbeReport& report) {
  TRY(const DeviceMemory memory, DeviceMemory::allocate(cuda, kFillWords * sizeof(std::uint32_t)));
  CudaAddress out = memory.address();
  std::uint32_t count = kFillWords, seed = kFillSeed;
  void* fill_parameters[] = {&out, &count, &seed};
  TRY_STATUS(launch(cuda, kernels.fill, blocks_of(report, 0) * 2, fill_parameters, kFillKernel));
  TRY_STATUS(wait(cuda, kFillKernel));
  TRY(const std::vector<std::uint32_t> filled, memory.read(kFillWords));
  for (std::uint32_t i = 0; i < kFillWords; ++i) report.wrong_words += filled[i] != fill_value(i, seed);

  std::uint32_t iterations = kSpinIterations;
  const std::uint32_t blocks = std::min(blocks_of(report, 0), kFillWords / kThreadsPerBlock);
  void* spin_parameters[] = {&out, &iterations};
  TRY_STATUS(launch(cuda, kernels.spin, blocks, spin_parameters, kSpinKernel));
  TRY_STATUS(wait(cuda, kSpinKernel));
  TRY(const std::vector<std::uint32_t> spun, memory.read(std::size_t{blocks} * kThreadsPerBlock));
  for (std::uint32_t i = 0; i < spun.size(); ++i) report.wrong_words += spun[i] != spin_value(i, iterations);
  report.checked_words += filled.size() + spun.size();
  return {};
}

Status count_sms(const CudaLibrary& cuda, const Kernels& kernels, ProbeReport& report) {
  const std::uint32_t blocks = blocks_of(report, 0) * 8;
  TRY(const DeviceMemory memory, DeviceMemory::allocate(cuda, blocks * sizeof(std::uint32_t)));
  CudaAddress out = memory.address();
  std::uint32_t iterations = kSmidIterations;
  void* parameters[] = {&out, &iterations};
  TRY_STATUS(launch(cuda, kernels.smid, blocks, parameters, kSmidKernel));
  TRY_STATUS(wait(cuda, kSmidKernel));
  TRY(const std::vector<std::uint32_t> ran_on, memory.read(blocks));
  report.sms_seen = static_cast<std::uint32_t>(std::set<std::uint32_t>(ran_on.begin(), ran_on.end()).size());
  return {};
}

Status measure_throughput(const CudaLibrary& cuda, const Kernels& kernels, const ProbeOptions& options,
                          ProbeReport& report) {
  if (options.run_for <= Duration::zero()) return {};
  Throughput measured;
  measured.blocks_per_launch = blocks_of(report, options.blocks);
  measured.tensor_cores = kernels.tensor != nullptr;
  measured.iterations = measured.tensor_cores ? kTensorIterations : kSpinIterations;
  const CudaFunction kernel = measured.tensor_cores ? kernels.tensor : kernels.spin;
  const char* const name = measured.tensor_cores ? kTensorKernel : kSpinKernel;
  TRY(const DeviceMemory memory,
      DeviceMemory::allocate(cuda, std::size_t{measured.blocks_per_launch} * kThreadsPerBlock * sizeof(std::uint32_t)));
  CudaAddress out = memory.address();
  void* parameters[] = {&out, &measured.iterations};
  TRY_STATUS(launch(cuda, kernel, measured.blocks_per_launch, parameters, name));  // not counted: warms up
  TRY_STATUS(wait(cuda, name));
  const MonoTime begin = os::mono_now();
  MonoTime now = begin;
  do {
    for (std::uint32_t i = 0; i < options.queue; ++i) {
      TRY_STATUS(launch(cuda, kernel, measured.blocks_per_launch, parameters, name));
    }
    if (measured.launches == 0 && options.on_stage) options.on_stage("computing");
    TRY_STATUS(wait(cuda, name));
    measured.launches += options.queue;
    now = os::mono_now();
  } while (now - begin < options.run_for && !(options.stop && options.stop()));
  measured.seconds = std::chrono::duration<double>(now - begin).count();
  measured.blocks_per_second =
      static_cast<double>(measured.launches) * measured.blocks_per_launch / std::max(measured.seconds, 1e-9);
  report.throughput = measured;
  TRY(const std::vector<std::uint32_t> sums, memory.read(std::size_t{measured.blocks_per_launch} * kThreadsPerBlock));
  const auto right = measured.tensor_cores ? tensor_value : spin_value;
  for (std::uint32_t i = 0; i < sums.size(); ++i) report.wrong_words += sums[i] != right(i, measured.iterations);
  report.checked_words += sums.size();
  return {};
}

Status find_largest_allocation(const CudaLibrary& cuda, ProbeReport& report) {
  std::uint64_t good = 0, bad = report.memory_total.value / kLimitStep + 1;  // in steps
  while (bad - good > 1) {
    const std::uint64_t middle = good + (bad - good) / 2;
    Result<DeviceMemory> memory = DeviceMemory::allocate(cuda, middle * kLimitStep);
    if (!memory && memory.error().code != kCudaOutOfMemory) return std::unexpected(std::move(memory).error());
    (memory ? good : bad) = middle;
  }
  report.largest_allocation = Bytes{good * kLimitStep};
  return {};
}

}  // namespace tranche::probe
