#include "probe/cuda_library.h"

#include <dlfcn.h>

#include <array>
#include <utility>

#include "base/text.h"
#include "base/units.h"

namespace tranche::probe {
namespace {

constexpr const char* kSoname = "libcuda.so.1";

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

}  // namespace tranche::probe
