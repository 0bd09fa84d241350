#include "probe/probe.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <set>
#include <type_traits>

#include "base/text.h"
#include "os/clock/clock.h"
#include "os/files/files.h"
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

std::string uuid_of(const CudaLibrary& cuda, CudaDevice device) {
  CudaUuid uuid{};
  if (cuda.functions().device_uuid == nullptr || cuda.functions().device_uuid(&uuid, device) != kCudaSuccess) return {};
  return "GPU-" + uuid_text(uuid.bytes);
}

// Its index and UUID are in the report.
Result<CudaDevice> choose_device(const CudaLibrary& cuda, const std::string& wanted, ProbeReport& report) {
  const int count = report.visible_devices;
  const auto number = parse_unsigned(wanted);
  if (number && *number >= static_cast<std::uint64_t>(count)) {
    return fail(Kind::kNotFound,
                "there is no GPU " + wanted + " here: " + std::to_string(count) + " visible, counted from 0",
                "--device");
  }
  std::string seen;
  for (int& index = report.device_index; index < count; ++index) {
    CudaDevice device = 0;
    TRY_STATUS(cuda.check(cuda.functions().device_get(&device, index),
                          "GPU " + std::to_string(index) + " cannot be opened", "cuDeviceGet"));
    const std::string& uuid = report.device_uuid = uuid_of(cuda, device);
    if (wanted.empty() || (number && static_cast<std::uint64_t>(index) == *number) || uuid == wanted) return device;
    seen += (seen.empty() ? "" : ", ") + uuid;
  }
  return fail(Kind::kNotFound, "GPU " + in_quotes(wanted) + " is not visible here; visible: " + seen, "--device");
}

std::uint32_t attribute(const CudaLibrary& cuda, int which, CudaDevice device) {
  int value = 0;
  if (cuda.functions().device_attribute(&value, which, device) != kCudaSuccess || value < 0) return 0;
  return static_cast<std::uint32_t>(value);
}

void describe_device(const CudaLibrary& cuda, CudaDevice device, ProbeReport& report) {
  std::array<char, 128> name{};
  if (cuda.functions().device_name(name.data(), static_cast<int>(name.size()) - 1, device) == kCudaSuccess) {
    report.device_name = name.data();
  }
  report.capability_major = static_cast<int>(attribute(cuda, kAttributeCapabilityMajor, device));
  report.capability_minor = static_cast<int>(attribute(cuda, kAttributeCapabilityMinor, device));
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

struct Kernel {
  CudaFunction function = nullptr;
  const char* name = kComputeKernel;
  std::uint32_t (*answer)(std::uint32_t thread, std::uint32_t iterations) = compute_value;
  std::uint32_t iterations = 4096;  // about 0.1 ms: short enough that dying in it hurts no neighbour
};

// About 10 ms, as a framework's product in a small share: long enough that dying in it would hurt the neighbours.
constexpr std::uint32_t kTensorIterations = 128 << 10;
constexpr std::uint32_t kManyBlocks = 4096;        // 16 MiB of answers: fits into the smallest share
constexpr std::uint32_t kFewIterations = 16;       // the time of many blocks is that of their memory
constexpr std::uint32_t kSmidIterations = 40'000;  // long enough that blocks spread over all SMs before one ends
constexpr std::uint64_t kLimitStep = 2ull << 20;   // the driver hands out memory in pieces of 2 MiB

// Blocks of a kernel, and memory for the answer of each thread.
struct Grid {
  static Result<Grid> make(const CudaLibrary& cuda, const Kernel& kernel, std::uint32_t blocks) {
    TRY(auto memory, DeviceMemory::allocate(cuda, std::size_t{blocks} * kThreadsPerBlock * sizeof(std::uint32_t)));
    return Grid{cuda, kernel, blocks, std::move(memory)};
  }

  Status launch(CudaAddress sms = 0) {
    CudaAddress out = answers.address();
    void* parameters[] = {&out, &kernel.iterations, &sms};
    return cuda.check(
        cuda.functions().launch(kernel.function, blocks, 1, 1, kThreadsPerBlock, 1, 1, 0, nullptr, parameters, nullptr),
        "a kernel cannot be started", kernel.name);
  }

  Status wait() const { return cuda.check(cuda.functions().context_synchronize(), "a kernel failed", kernel.name); }

  Status check(ProbeReport& report) const {
    TRY(const std::vector<std::uint32_t> words, answers.read(std::size_t{blocks} * kThreadsPerBlock));
    for (std::uint32_t i = 0; i < words.size(); ++i)
      report.wrong_words += words[i] != kernel.answer(i, kernel.iterations);
    report.checked_words += words.size();
    return {};
  }

  const CudaLibrary& cuda;
  Kernel kernel;
  std::uint32_t blocks;
  DeviceMemory answers;
};

std::uint32_t blocks_of(const ProbeReport& report, std::uint32_t asked) {
  return asked != 0 ? asked : std::max<std::uint32_t>(report.sms_by_attribute, 1);
}

Status check_answers(const CudaLibrary& cuda, Kernel kernel, ProbeReport& report) {
  kernel.iterations = kFewIterations;
  TRY(Grid grid, Grid::make(cuda, kernel, kManyBlocks));
  TRY_STATUS(grid.launch());
  TRY_STATUS(grid.wait());
  return grid.check(report);
}

Status count_sms(const CudaLibrary& cuda, Kernel kernel, ProbeReport& report) {
  kernel.iterations = kSmidIterations;
  TRY(Grid grid, Grid::make(cuda, kernel, blocks_of(report, 0) * 8));
  TRY(const DeviceMemory memory, DeviceMemory::allocate(cuda, grid.blocks * sizeof(std::uint32_t)));
  TRY_STATUS(grid.launch(memory.address()));
  TRY_STATUS(grid.wait());
  TRY(const std::vector<std::uint32_t> ran_on, memory.read(grid.blocks));
  report.sms_seen = static_cast<std::uint32_t>(std::set<std::uint32_t>(ran_on.begin(), ran_on.end()).size());
  return grid.check(report);
}

Status measure_throughput(const CudaLibrary& cuda, const Kernel& kernel, const ProbeOptions& options,
                          ProbeReport& report) {
  if (options.run_for <= Duration::zero()) return {};
  TRY(Grid grid, Grid::make(cuda, kernel, blocks_of(report, options.blocks)));
  Throughput measured;
  measured.blocks_per_launch = grid.blocks;
  measured.tensor_cores = options.tensor_cores;
  measured.iterations = kernel.iterations;
  TRY_STATUS(grid.launch());  // not counted: warms up
  TRY_STATUS(grid.wait());
  const MonoTime begin = os::mono_now();
  MonoTime now = begin;
  do {
    for (std::uint32_t i = 0; i < options.queue; ++i) TRY_STATUS(grid.launch());
    if (measured.launches == 0 && options.on_stage) options.on_stage("computing");
    TRY_STATUS(grid.wait());
    measured.launches += options.queue;
    now = os::mono_now();
  } while (now - begin < options.run_for && !(options.stop && options.stop()));
  measured.seconds = std::chrono::duration<double>(now - begin).count();
  measured.blocks_per_second =
      static_cast<double>(measured.launches) * measured.blocks_per_launch / std::max(measured.seconds, 1e-9);
  report.throughput = measured;
  return grid.check(report);
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

// ---- MPS

constexpr const char* kDefaultPipeDirectory = "/tmp/nvidia-mps";

// What a connected SOCK_SEQPACKET socket leads to; "" for everything else.
std::string peer_of(int fd) {
  int type = 0;
  socklen_t type_size = sizeof(type);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_SEQPACKET) return {};
  sockaddr_un peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sun_family != AF_UNIX) return {};
  if (size <= offsetof(sockaddr_un, sun_path)) return "(unnamed)";
  std::string path(peer.sun_path, size - offsetof(sockaddr_un, sun_path));
  const bool abstract = path.front() == '\0';
  path.erase(std::remove(path.begin(), path.end(), '\0'), path.end());
  return abstract ? "@" + path : path;
}

}  // namespace

std::map<unsigned long, std::string> local_connections() {
  std::map<unsigned long, std::string> by_inode;
  for (const std::string& name : os::names_in("/proc/self/fd")) {
    const auto number = parse_unsigned(name);
    if (!number || *number > 1'000'000) continue;
    const int fd = static_cast<int>(*number);
    struct stat status{};
    if (std::string peer = peer_of(fd); !peer.empty() && ::fstat(fd, &status) == 0)
      by_inode[status.st_ino] = std::move(peer);
  }
  return by_inode;
}

MpsSign look_for_mps(const std::map<unsigned long, std::string>& before) {
  MpsSign sign;
  const char* directory = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  sign.pipe_directory = directory != nullptr && *directory != '\0' ? directory : kDefaultPipeDirectory;
  struct stat status{};
  const std::string control = sign.pipe_directory + "/control";
  sign.control_socket = ::stat(control.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  for (auto& [inode, peer] : local_connections()) {
    if (!before.contains(inode)) sign.peers.push_back(std::move(peer));
  }
  sign.connected = !sign.peers.empty();
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"}) {
    if (const char* value = std::getenv(name); value != nullptr)
      sign.settings.push_back(std::string(name) + "=" + value);
  }
  return sign;
}

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
  TRY(const CudaDevice device, choose_device(cuda, options.device, report));
  describe_device(cuda, device, report);

  stage("making a context (cuCtxCreate); an MPS daemon that serves another user keeps clients waiting here");
  TRY(const Context context, timed(report.context_time, [&] { return make_context(cuda, device); }));
  report.sms_by_attribute = attribute(cuda, kAttributeMultiprocessors, device);
  std::size_t free = 0, total = 0;
  TRY_STATUS(cuda.check(cuda.functions().memory_info(&free, &total), "the memory cannot be read", "cuMemGetInfo"));
  report.memory_free = {free};
  report.memory_total = {total};
  report.mps = look_for_mps(connections_before);

  stage("compiling the kernels");
  TRY(CudaModule module, timed(report.compile_time, [&] { return compile(cuda, kPtx); }));
  Kernel kernel;
  TRY(kernel.function, find_kernel(cuda, module, kernel.name));
  Kernel timed_kernel = kernel;
  if (options.tensor_cores) {
    if (report.capability_major < kTensorCapability)
      return fail(Kind::kUnsupported,
                  "this GPU has compute capability " + std::to_string(report.capability_major) + "." +
                      std::to_string(report.capability_minor) + ", and the kernel needs 8.0: leave the flag out",
                  "--tensor-cores");
    TRY(CudaModule tensor_module, compile(cuda, kTensorPtx));
    timed_kernel = {.name = kTensorKernel, .answer = tensor_value, .iterations = kTensorIterations};
    TRY(timed_kernel.function, find_kernel(cuda, tensor_module, kTensorKernel));
  }

  stage("checking answers");
  TRY_STATUS(check_answers(cuda, kernel, report));
  stage("counting SMs");
  TRY_STATUS(count_sms(cuda, kernel, report));
  stage("looking for the memory limit");
  if (options.find_limit) TRY_STATUS(find_largest_allocation(cuda, report));
  stage("allocating");
  const std::vector<DeviceMemory> held = allocate_asked(cuda, options.allocate, report);
  TRY_STATUS(measure_throughput(cuda, timed_kernel, options, report));

  stage("holding");
  if (while_alive) while_alive(report);
  stage("ending");
  return report;
}

}  // namespace tranche::probe
