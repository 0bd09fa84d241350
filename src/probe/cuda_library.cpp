#include "probe/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <initializer_list>

#include "base/text.h"

namespace tranche::probe {
namespace {

constexpr const char* kSoname = "libcuda.so.1";

template <class F>
bool look_up(void* handle, F*& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = ::dlsym(handle, name); symbol != nullptr) {
      function = reinterpret_cast<F*>(symbol);
      return true;
    }
  }
  return false;
}

// The suffixes are the ABI: an unsuffixed cuMemAlloc is the 32-bit one of CUDA 3.
bool look_up_all(void* handle, CudaFunctions& f) {
  look_up(handle, f.error_name, {"cuGetErrorName"});
  look_up(handle, f.driver_version, {"cuDriverGetVersion"});
  look_up(handle, f.device_uuid, {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"});
  look_up(handle, f.module_load_with_options, {"cuModuleLoadDataEx"});
  look_up(handle, f.memory_set, {"cuMemsetD8_v2"});
  return look_up(handle, f.init, {"cuInit"}) && look_up(handle, f.device_count, {"cuDeviceGetCount"}) &&
         look_up(handle, f.device_get, {"cuDeviceGet"}) && look_up(handle, f.device_name, {"cuDeviceGetName"}) &&
         look_up(handle, f.device_attribute, {"cuDeviceGetAttribute"}) &&
         look_up(handle, f.device_memory, {"cuDeviceTotalMem_v2"}) &&
         look_up(handle, f.context_create, {"cuCtxCreate_v2"}) &&
         look_up(handle, f.context_destroy, {"cuCtxDestroy_v2"}) &&
         look_up(handle, f.context_synchronize, {"cuCtxSynchronize"}) &&
         look_up(handle, f.memory_info, {"cuMemGetInfo_v2"}) && look_up(handle, f.memory_allocate, {"cuMemAlloc_v2"}) &&
         look_up(handle, f.memory_free, {"cuMemFree_v2"}) && look_up(handle, f.copy_to_host, {"cuMemcpyDtoH_v2"}) &&
         look_up(handle, f.module_load, {"cuModuleLoadData"}) &&
         look_up(handle, f.module_function, {"cuModuleGetFunction"}) && look_up(handle, f.launch, {"cuLaunchKernel"});
}

}  // namespace

Result<std::unique_ptr<CudaLibrary>> CudaLibrary::open() {
  void* handle = ::dlopen(kSoname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return fail(Kind::kUnavailable,
                std::string("the CUDA driver library cannot be opened (") +
                    (reason != nullptr ? reason : "no reason given") +
                    "); run this where a GPU is granted: the container runtime mounts the library",
                kSoname);
  }
  auto library = std::make_unique<CudaLibrary>();
  link_map* map = nullptr;
  library->path_ = kSoname;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      *map->l_name != '\0') {
    library->path_ = map->l_name;
  }
  if (!look_up_all(handle, library->functions_)) {
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

Result<CudaModule> compile(const CudaLibrary& cuda, const char* ptx) {
  CudaModule module = nullptr;
  const CudaFunctions& f = cuda.functions();
  std::array<char, 2048> log{};
  int code = kCudaSuccess;
  if (f.module_load_with_options != nullptr) {
    std::array<int, 2> options{kJitErrorLogBuffer, kJitErrorLogBufferBytes};
    std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
    code = f.module_load_with_options(&module, ptx, 2, options.data(), values.data());
  } else {
    code = f.module_load(&module, ptx);
  }
  if (code == kCudaSuccess) return module;
  Error error = cuda.error(code, "the probe's kernels do not compile", "cuModuleLoadData");
  if (log[0] != '\0') error.what += std::string(" (") + std::string(trimmed(log.data())) + ")";
  return std::unexpected(std::move(error));
}

Result<CudaFunction> find_kernel(const CudaLibrary& cuda, CudaModule module, const char* name) {
  CudaFunction function = nullptr;
  const int code = cuda.functions().module_function(&function, module, name);
  if (code != kCudaSuccess) return std::unexpected(cuda.error(code, "a kernel is missing", name));
  return function;
}

}  // namespace tranche::probe
