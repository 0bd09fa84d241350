#include "probe/cuda_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/units.h"

namespace tranche::probe {
namespace {

constexpr const char* kSoname = "libcuda.so.1";

constexpr std::array kTexts = std::to_array<CudaErrorText>({
    {2, Kind::kConflict, "CUDA_ERROR_OUT_OF_MEMORY",
     "the GPU, or this tenant's share of it, has not that much memory left",
     "under MPS the context itself is charged too (72 to 514 MiB on H200); ask for less or for more slots"},
    {3, Kind::kUnavailable, "CUDA_ERROR_NOT_INITIALIZED", "the driver is shutting down or was never started",
     "start the program again"},
    {34, Kind::kUnavailable, "CUDA_ERROR_STUB_LIBRARY", "this libcuda.so.1 is the toolkit's stub, not the driver's",
     "remove the stubs folder from LD_LIBRARY_PATH"},
    {35, Kind::kUnsupported, "CUDA_ERROR_INSUFFICIENT_DRIVER", "the kernel driver is older than this library",
     "update the driver, or mount the library that belongs to it"},
    {46, Kind::kConflict, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "the device is busy or closed to us: its compute mode is EXCLUSIVE_PROCESS or PROHIBITED, or MPS serves its most "
     "clients",
     "check that CUDA_MPS_PIPE_DIRECTORY leads to the GPU's own daemon, and `tranche status` for the number of "
     "clients"},
    {100, Kind::kNotFound, "CUDA_ERROR_NO_DEVICE", "no GPU is visible here",
     "check CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES and the device nodes; under MPS a daemon that serves another "
     "GPU looks like this too"},
    {101, Kind::kInvalid, "CUDA_ERROR_INVALID_DEVICE", "there is no GPU of that number", "use a UUID"},
    {200, Kind::kInvalid, "CUDA_ERROR_INVALID_IMAGE", "the driver does not take this GPU program",
     "report it with the driver's version"},
    {201, Kind::kUnavailable, "CUDA_ERROR_INVALID_CONTEXT", "the context is gone", "start the program again"},
    {209, Kind::kUnsupported, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the driver cannot make this GPU program run on this GPU",
     "report it with the GPU's name and the driver's version"},
    {214, Kind::kUnavailable, "CUDA_ERROR_ECC_UNCORRECTABLE", "an uncorrectable memory error",
     "drain the GPU and reset it"},
    {218, Kind::kInvalid, "CUDA_ERROR_INVALID_PTX", "the driver's compiler refuses the GPU program",
     "report it with the driver's version"},
    {221, Kind::kUnsupported, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "libnvidia-ptxjitcompiler.so.1 is missing",
     "give the container the driver capability `compute`"},
    {222, Kind::kUnsupported, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the driver is too old for this GPU program",
     "update the driver"},
    {304, Kind::kDenied, "CUDA_ERROR_OPERATING_SYSTEM", "the operating system refused a call of the driver",
     "check device nodes and cgroup device rules; after `systemctl daemon-reload` containers may lose them"},
    {700, Kind::kUnavailable, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "memory was touched that is not there; under MPS also: a neighbour on this GPU did, or was killed with work in "
     "flight",
     "start the program again; `tranche status` and the daemon's server.log name the culprit"},
    {702, Kind::kTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran longer than the watchdog allows",
     "use a GPU without a display"},
    {709, Kind::kUnavailable, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is gone", "start the program again"},
    {719, Kind::kUnavailable, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed; under MPS also a neighbour's",
     "start the program again"},
    {800, Kind::kDenied, "CUDA_ERROR_NOT_PERMITTED", "the MPS daemon does not take this user",
     "it must run with -multiuser-server, or the program as the daemon's user"},
    {801, Kind::kUnsupported, "CUDA_ERROR_NOT_SUPPORTED", "this GPU or driver cannot", "see docs/reference/probe.md"},
    {802, Kind::kUnavailable, "CUDA_ERROR_SYSTEM_NOT_READY", "the node's NVSwitch fabric is not up",
     "start nvidia-fabricmanager"},
    {803, Kind::kConflict, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "library and kernel driver have different versions",
     "restart this container; the driver was upgraded"},
    {805, Kind::kUnavailable, "CUDA_ERROR_MPS_CONNECTION_FAILED",
     "no connection to the MPS server: its socket, shared memory or user does not fit",
     "check that the pipe directory holds a live `control` socket, that every folder above it can be entered by this "
     "user, and /dev/shm on older drivers"},
    {806, Kind::kUnavailable, "CUDA_ERROR_MPS_RPC_FAILURE", "the MPS server died during a call",
     "start the program again: the daemon starts a new server"},
    {807, Kind::kUnavailable, "CUDA_ERROR_MPS_SERVER_NOT_READY",
     "the MPS server starts, recovers from a fault, or waits for another user's clients to leave",
     "try again in a few seconds"},
    {808, Kind::kConflict, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "the MPS server has as many clients as it can serve",
     "wait for one to end, or configure fewer slots"},
    {809, Kind::kConflict, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
     "the MPS server has as many connections as it can serve",
     "lower CUDA_DEVICE_MAX_CONNECTIONS in the clients, or wait for one to end"},
    {810, Kind::kConflict, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS server was asked to end this client",
     "see the pod's events: a limit was exceeded, or the pod is being stopped; the process must exit"},
    {811, Kind::kUnsupported, "CUDA_ERROR_CDP_NOT_SUPPORTED", "kernels that start kernels do not run under MPS here",
     "use a GPU of its own"},
    {999, Kind::kUnavailable, "CUDA_ERROR_UNKNOWN", "the driver gives no reason",
     "look for Xid lines in dmesg; often /dev/nvidia-uvm is missing or not allowed here"},
});

static_assert(std::ranges::is_sorted(kTexts, std::ranges::less_equal{}, &CudaErrorText::code), "in order, each once");

}  // namespace

os::Symbol CudaFunctions::need(const char* name) {
  const os::Symbol symbol = find({name});
  complete = complete && static_cast<void*>(symbol) != nullptr;
  return symbol;
}

Result<std::unique_ptr<CudaLibrary>> CudaLibrary::open() {
  void* handle = ::dlopen(kSoname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    return fail(Kind::kUnavailable,
                "the CUDA driver library cannot be opened (" + os::loader_error() +
                    "); run this where a GPU is granted: the container runtime mounts the library",
                kSoname);
  }
  auto library = std::make_unique<CudaLibrary>();
  library->path_ = os::library_path(handle, kSoname);
  library->functions_ = CudaFunctions(handle);
  if (!library->functions_.complete) {
    return fail(Kind::kUnsupported, "this CUDA driver library lacks a function that every driver since CUDA 4 has",
                library->path_);
  }
  return library;
}

std::string CudaLibrary::name_of(int code) const {
  const char* name = nullptr;
  if (functions_.error_name != nullptr && functions_.error_name(code, &name) == kCudaSuccess && name != nullptr)
    return name;
  const CudaErrorText* text = explain(code);
  return text != nullptr ? text->name : "CUDA error " + std::to_string(code);
}

Error CudaLibrary::error(int code, std::string doing, std::string where) const {
  std::string what = std::move(doing) + ": " + name_of(code);
  const CudaErrorText* text = explain(code);
  if (text != nullptr) what += std::string(": ") + text->meaning + "; " + text->remedy;
  return Error{text != nullptr ? text->kind : Kind::kUnavailable, std::move(what), std::move(where), code};
}

Status CudaLibrary::check(int code, std::string_view doing, std::string_view where) const {
  if (code == kCudaSuccess) return {};
  return std::unexpected(error(code, std::string(doing), std::string(where)));
}

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

Result<CudaModule> compile(const CudaLibrary& cuda, const char* ptx) {
  CudaModule module = nullptr;
  std::array<char, 2048> log{};
  std::array<int, 2> options{kJitErrorLogBuffer, kJitErrorLogBufferBytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  const int code = cuda.functions().module_load(&module, ptx, 2, options.data(), values.data());
  if (code == kCudaSuccess) return module;
  Error error = cuda.error(code, "the probe's kernels do not compile", "cuModuleLoadData");
  if (log[0] != '\0') error.what += std::string(" (") + std::string(trimmed(log.data())) + ")";
  return std::unexpected(std::move(error));
}

Result<CudaFunction> find_kernel(const CudaLibrary& cuda, CudaModule module, const char* name) {
  CudaFunction function = nullptr;
  TRY_STATUS(cuda.check(cuda.functions().module_function(&function, module, name), "a kernel is missing", name));
  return function;
}

const CudaErrorText* explain(int code) {
  const auto it = std::ranges::find(kTexts, code, &CudaErrorText::code);
  return it != kTexts.end() ? &*it : nullptr;
}

}  // namespace tranche::probe
