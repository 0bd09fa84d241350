#include "probe/probe.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <type_traits>

#include "base/text.h"
#include "os/clock/clock.h"
#include "probe/cuda_library.h"
#include "probe/kernels.h"

namespace tranche::probe {
namespace {

struct EndContext {
  const CudaLibrary* cuda;
  void operator()(CudaContext context) const {
    cuda->functions().context_synchronize();  // nothing may be in flight when we go
    cuda->functions().context_destroy(context);
  }
};
using Context = std::unique_ptr<std::remove_pointer_t<CudaContext>, EndContext>;

Result<Context> make_context(const CudaLibrary& cuda, CudaDevice device) {
  CudaContext context = nullptr;
  TRY_STATUS(
      cuda.check(cuda.functions().context_create(&context, 0, device), "a CUDA context cannot be made", "cuCtxCreate"));
  return Context(context, EndContext{&cuda});
}

struct Chosen {
  CudaDevice device = 0;
  int index = 0;
  std::string uuid;
};

std::string uuid_of(const CudaLibrary& cuda, CudaDevice device) {
  CudaUuid uuid{};
  if (cuda.functions().device_uuid == nullptr || cuda.functions().device_uuid(&uuid, device) != kCudaSuccess) return {};
  return "GPU-" + uuid_text(uuid.bytes);
}

Result<Chosen> choose_device(const CudaLibrary& cuda, const std::string& wanted, int count) {
  const auto number = parse_unsigned(wanted);
  if (number && *number >= static_cast<std::uint64_t>(count)) {
    return fail(Kind::kNotFound,
                "there is no GPU " + wanted + " here: " + std::to_string(count) + " visible, counted from 0",
                "--device");
  }
  std::string seen;
  for (int index = 0; index < count; ++index) {
    Chosen chosen{0, index, {}};
    TRY_STATUS(cuda.check(cuda.functions().device_get(&chosen.device, index),
                          "GPU " + std::to_string(index) + " cannot be opened", "cuDeviceGet"));
    chosen.uuid = uuid_of(cuda, chosen.device);
    if (wanted.empty() || (number && static_cast<std::uint64_t>(index) == *number) || chosen.uuid == wanted)
      return chosen;
    seen += (seen.empty() ? "" : ", ") + chosen.uuid;
  }
  return fail(Kind::kNotFound, "GPU " + in_quotes(wanted) + " is not visible here; visible: " + seen, "--device");
}

std::uint32_t attribute(const CudaLibrary& cuda, int which, CudaDevice device) {
  int value = 0;
  if (cuda.functions().device_attribute(&value, which, device) != kCudaSuccess || value < 0) return 0;
  return static_cast<std::uint32_t>(value);
}

void describe_device(const CudaLibrary& cuda, const Chosen& chosen, ProbeReport& report) {
  std::array<char, 128> name{};
  if (cuda.functions().device_name(name.data(), static_cast<int>(name.size()) - 1, chosen.device) == kCudaSuccess) {
    report.device_name = name.data();
  }
  report.device_index = chosen.index;
  report.device_uuid = chosen.uuid;
  report.capability_major = static_cast<int>(attribute(cuda, kAttributeCapabilityMajor, chosen.device));
  report.capability_minor = static_cast<int>(attribute(cuda, kAttributeCapabilityMinor, chosen.device));
}

std::vector<DeviceMemory> allocate_asked(const CudaLibrary& cuda, const std::vector<Bytes>& sizes,
                                         ProbeReport& report) {
  std::vector<DeviceMemory> held;
  for (const Bytes size : sizes) {
    Result<DeviceMemory> memory = DeviceMemory::allocate(cuda, size.value);
    report.allocations.push_back({size, memory.has_value(), memory ? "" : cuda.name_of(memory.error().code)});
    if (memory) held.push_back(*std::move(memory));
  }
  return held;
}

struct Kernels {
  CudaFunction fill = nullptr;
  CudaFunction spin = nullptr;
  CudaFunction smid = nullptr;
  CudaFunction tensor = nullptr;  // null: not asked for
};

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

}  // namespace

Result<ProbeReport> run_probe(const ProbeOptions& options, const std::function<void(const ProbeReport&)>& while_alive) {
  ProbeReport report;
  const auto stage = [&options](const char* name) {
    if (options.on_stage) options.on_stage(name);
  };
  const auto timed = [](Duration& spent, auto&& action) {
    const MonoTime begin = os::mono_now();
    auto result = action();
    spent = os::mono_now() - begin;
    return result;
  };

  TRY(const std::unique_ptr<CudaLibrary> library, CudaLibrary::open());
  const CudaLibrary& cuda = *library;
  report.library = cuda.path();

  const auto connections_before = local_connections();
  stage("starting CUDA (cuInit)");
  TRY_STATUS(
      cuda.check(timed(report.init_time, [&] { return cuda.functions().init(0); }), "CUDA does not start", "cuInit"));
  if (cuda.functions().driver_version != nullptr) cuda.functions().driver_version(&report.driver_cuda);
  TRY_STATUS(cuda.check(cuda.functions().device_count(&report.visible_devices), "the GPUs cannot be counted",
                        "cuDeviceGetCount"));
  TRY(const Chosen chosen, choose_device(cuda, options.device, report.visible_devices));
  describe_device(cuda, chosen, report);

  stage("making a context (cuCtxCreate); an MPS daemon that serves another user keeps clients waiting here");
  TRY(const Context context, timed(report.context_time, [&] { return make_context(cuda, chosen.device); }));
  report.sms_by_attribute = attribute(cuda, kAttributeMultiprocessors, chosen.device);
  std::size_t free = 0, total = 0;
  TRY_STATUS(cuda.check(cuda.functions().memory_info(&free, &total), "the memory cannot be read", "cuMemGetInfo"));
  report.memory_free = {free};
  report.memory_total = {total};
  report.mps = look_for_mps(connections_before);

  stage("compiling the kernels");
  TRY(CudaModule module, timed(report.compile_time, [&] { return compile(cuda, kPtx); }));
  Kernels kernels;
  TRY(kernels.fill, find_kernel(cuda, module, kFillKernel));
  TRY(kernels.spin, find_kernel(cuda, module, kSpinKernel));
  TRY(kernels.smid, find_kernel(cuda, module, kSmidKernel));
  if (options.tensor_cores) {
    if (report.capability_major < kTensorCapability)
      return fail(Kind::kUnsupported,
                  "this GPU has compute capability " + std::to_string(report.capability_major) + "." +
                      std::to_string(report.capability_minor) + ", and the kernel needs 8.0: leave the flag out",
                  "--tensor-cores");
    TRY(CudaModule tensor_module, compile(cuda, kTensorPtx));
    TRY(kernels.tensor, find_kernel(cuda, tensor_module, kTensorKernel));
  }

  stage("checking answers");
  TRY_STATUS(check_answers(cuda, kernels, report));
  stage("counting SMs");
  TRY_STATUS(count_sms(cuda, kernels, report));
  stage("looking for the memory limit");
  if (options.find_limit) TRY_STATUS(find_largest_allocation(cuda, report));
  stage("allocating");
  const std::vector<DeviceMemory> held = allocate_asked(cuda, options.allocate, report);
  TRY_STATUS(measure_throughput(cuda, kernels, options, report));

  stage("holding");
  if (while_alive) while_alive(report);
  stage("ending");
  return report;
}

}  // namespace tranche::probe
