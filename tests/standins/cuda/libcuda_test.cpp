// The libcuda.so.1 stand-in through dlopen, as the probe uses it: the C ABI, kernels by name, limits, faults.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <set>

#include "standins/cuda/libcuda_abi.h"
#include "standins/mps/mps_world.h"

namespace tranche::sim {
namespace {

constexpr const char* kPtx =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry tranche_fill(.param .u64 a) { ret; }\n"
    ".visible .entry tranche_spin(\n) { ret; }\n.visible .entry tranche_smid() { ret; }\n.entry other() { ret; }\n";

// Runs in a child process: a driver library can be initialised only once per process.
class Driver {
 public:
  Driver() {
    const std::string path = std::string(std::getenv("TRANCHE_BUILD")) + "/standins/libcuda.so.1";
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) std::fprintf(stderr, "%s\n", ::dlerror());
  }
  bool there() const { return handle_ != nullptr; }
#define TRANCHE_DRIVER_CALL(name)                                                      \
  template <class... A>                                                                \
  int name(A... arguments) {                                                           \
    return reinterpret_cast<decltype(&::name)>(::dlsym(handle_, #name))(arguments...); \
  }
  TRANCHE_DRIVER_CALL(cuInit)
  TRANCHE_DRIVER_CALL(cuDriverGetVersion)
  TRANCHE_DRIVER_CALL(cuGetErrorName)
  TRANCHE_DRIVER_CALL(cuDeviceGetCount)
  TRANCHE_DRIVER_CALL(cuDeviceGet)
  TRANCHE_DRIVER_CALL(cuDeviceGetName)
  TRANCHE_DRIVER_CALL(cuDeviceGetUuid_v2)
  TRANCHE_DRIVER_CALL(cuDeviceGetAttribute)
  TRANCHE_DRIVER_CALL(cuDeviceTotalMem_v2)
  TRANCHE_DRIVER_CALL(cuCtxCreate_v2)
  TRANCHE_DRIVER_CALL(cuCtxDestroy_v2)
  TRANCHE_DRIVER_CALL(cuCtxSynchronize)
  TRANCHE_DRIVER_CALL(cuDevicePrimaryCtxRetain)
  TRANCHE_DRIVER_CALL(cuDevicePrimaryCtxRelease_v2)
  TRANCHE_DRIVER_CALL(cuCtxSetCurrent)
  TRANCHE_DRIVER_CALL(cuGetProcAddress_v2)
  TRANCHE_DRIVER_CALL(cuMemGetInfo_v2)
  TRANCHE_DRIVER_CALL(cuMemAlloc_v2)
  TRANCHE_DRIVER_CALL(cuMemFree_v2)
  TRANCHE_DRIVER_CALL(cuMemcpyHtoD_v2)
  TRANCHE_DRIVER_CALL(cuMemcpyDtoH_v2)
  TRANCHE_DRIVER_CALL(cuMemsetD32_v2)
  TRANCHE_DRIVER_CALL(cuModuleLoadData)
  TRANCHE_DRIVER_CALL(cuModuleGetFunction)
  TRANCHE_DRIVER_CALL(cuModuleUnload)
  TRANCHE_DRIVER_CALL(cuLaunchKernel)
  TRANCHE_DRIVER_CALL(cuEventCreate)
  TRANCHE_DRIVER_CALL(cuEventRecord)
  TRANCHE_DRIVER_CALL(cuEventSynchronize)
  TRANCHE_DRIVER_CALL(cuEventElapsedTime)
  TRANCHE_DRIVER_CALL(cuEventDestroy_v2)
#undef TRANCHE_DRIVER_CALL

  CudaFunctionHandle kernel(const char* name) {
    CudaModuleHandle module = nullptr;
    CudaFunctionHandle function = nullptr;
    return cuModuleLoadData(&module, kPtx) == 0 && cuModuleGetFunction(&function, module, name) == 0 ? function
                                                                                                     : nullptr;
  }

  template <class... A>
  int launch(CudaFunctionHandle function, unsigned blocks, A... values) {
    void* parameters[] = {&values...};
    return cuLaunchKernel(function, blocks, 1u, 1u, 1024u, 1u, 1u, 0u, nullptr, &parameters[0], nullptr);
  }

 private:
  void* handle_ = nullptr;
};

#define REQUIRE(condition)                                                       \
  if (!(condition)) {                                                            \
    std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
    return 1;                                                                    \
  }                                                                              \
  static_assert(true)

// Runs `body` in a child with the environment of a client of `world`; 0 if all its requirements were met.
int as_program(const MpsWorld& world, const std::map<std::string, std::string>& more, int (*body)(Driver&)) {
  return wait_status(in_child([&] {
    for (const auto& [key, value] : world.env()) ::setenv(key.c_str(), value.c_str(), 1);
    for (const auto& [key, value] : more) ::setenv(key.c_str(), value.c_str(), 1);
    Driver driver;
    return driver.there() ? body(driver) : 2;
  }));
}

TEST(LibCuda, ADeviceHasItsIdentity) {
  MpsWorld world("gpus:\n  - {profile: H200, uuid: GPU-01234567-89ab-cdef-0123-456789abcdef}\n");
  EXPECT_EQ(
      as_program(world, {},
                 [](Driver& cuda) {
                   int version = 0, count = 0, device = -1, value = 0;
                   std::size_t total = 0;
                   char name[64] = {};
                   CudaUuidBytes uuid{};
                   REQUIRE(cuda.cuDeviceGetCount(&count) == 3);  // not initialised
                   REQUIRE(cuda.cuInit(0u) == 0 && cuda.cuDriverGetVersion(&version) == 0 && version == 13000);
                   REQUIRE(cuda.cuDeviceGetCount(&count) == 0 && count == 1);
                   REQUIRE(cuda.cuDeviceGet(&device, 0) == 0 && cuda.cuDeviceGet(&device, 1) == 101);
                   REQUIRE(cuda.cuDeviceGetName(name, 64, 0) == 0 && std::string(name) == "NVIDIA H200");
                   REQUIRE(cuda.cuDeviceGetUuid_v2(&uuid, 0) == 0 && uuid.bytes[0] == 0x01 && uuid.bytes[15] == 0xef);
                   REQUIRE(cuda.cuDeviceGetAttribute(&value, 16, 0) == 0 && value == 132);
                   REQUIRE(cuda.cuDeviceGetAttribute(&value, 75, 0) == 0 && value == 9);
                   REQUIRE(cuda.cuDeviceTotalMem_v2(&total, 0) == 0 && total == 150109880320u);
                   const char* text = nullptr;
                   REQUIRE(cuda.cuGetErrorName(810, &text) == 0);
                   REQUIRE(std::string(text) == "CUDA_ERROR_MPS_CLIENT_TERMINATED");
                   void* function = nullptr;
                   int found = -1;
                   REQUIRE(cuda.cuGetProcAddress_v2("cuMemAlloc", &function, 12000, std::uint64_t{0}, &found) == 0);
                   REQUIRE(function != nullptr && found == 0);
                   REQUIRE(cuda.cuGetProcAddress_v2("cuNothing", &function, 12000, std::uint64_t{0}, &found) == 500);
                   return 0;
                 }),
      0);
}

TEST(LibCuda, KernelsAreKnownByNameAndComputeRight) {
  MpsWorld world;
  const auto program = [](Driver& cuda) {
    CudaContextHandle context = nullptr;
    CudaModuleHandle module = nullptr;
    CudaFunctionHandle function = nullptr;
    CudaAddress out = 0;
    REQUIRE(cuda.cuInit(0u) == 0 && cuda.cuCtxCreate_v2(&context, 0u, 0) == 0);
    REQUIRE(cuda.cuModuleLoadData(&module, "no ptx") == 218);
    REQUIRE(cuda.cuModuleLoadData(&module, kPtx) == 0);
    REQUIRE(cuda.cuModuleGetFunction(&function, module, "other") == 500);
    REQUIRE(cuda.cuModuleGetFunction(&function, module, "absent") == 500);
    REQUIRE(cuda.cuMemAlloc_v2(&out, std::size_t{1} << 20) == 0);
    std::vector<std::uint32_t> host(8 * 1024);
    REQUIRE(cuda.launch(cuda.kernel("tranche_fill"), 4u, out, 8192u, 99u) == 0);
    REQUIRE(cuda.cuMemcpyDtoH_v2(host.data(), out, host.size() * 4) == 0);
    for (std::uint32_t i = 0; i < host.size(); ++i) {
      const std::uint32_t mixed = (i ^ 99u) * 0x9E3779B1u;
      REQUIRE(host[i] == (mixed ^ (mixed >> 16)));
    }
    REQUIRE(cuda.launch(cuda.kernel("tranche_spin"), 8u, out, 100u) == 0);
    REQUIRE(cuda.cuMemcpyDtoH_v2(host.data(), out, host.size() * 4) == 0);
    for (std::uint32_t i = 0; i < host.size(); ++i) {
      std::uint32_t x = i;
      for (int step = 0; step < 100; ++step) x = x * 1664525u + 1013904223u;
      REQUIRE(host[i] == x);
    }
    REQUIRE(cuda.cuMemsetD32_v2(out, 7u, std::size_t{16}) == 0);
    REQUIRE(cuda.cuMemcpyDtoH_v2(host.data(), out, std::size_t{64}) == 0 && host[15] == 7);
    REQUIRE(cuda.cuModuleUnload(module) == 0 && cuda.cuMemFree_v2(out) == 0);
    REQUIRE(cuda.cuCtxDestroy_v2(context) == 0);
    return 0;
  };
  EXPECT_EQ(as_program(world, {}, program), 0);
}

TEST(LibCuda, AnMpsShareShowsInSmsInMemoryAndInTime) {
  MpsWorld world;
  world.start_daemon();
  world.ask("set_default_active_thread_percentage 10");
  world.ask("set_default_device_pinned_mem_limit 0 4096M");
  EXPECT_EQ(
      as_program(world, {},
                 [](Driver& cuda) {
                   CudaContextHandle context = nullptr;
                   int sms = 0;
                   std::size_t free_bytes = 0, total = 0;
                   CudaAddress out = 0, more = 0;
                   REQUIRE(cuda.cuInit(0u) == 0 && cuda.cuDevicePrimaryCtxRetain(&context, 0) == 0);
                   REQUIRE(cuda.cuCtxSetCurrent(context) == 0);
                   REQUIRE(cuda.cuDeviceGetAttribute(&sms, 16, 0) == 0 && sms == 12);
                   REQUIRE(cuda.cuMemGetInfo_v2(&free_bytes, &total) == 0 && free_bytes == 4219729520u);
                   REQUIRE(cuda.cuMemAlloc_v2(&out, std::size_t{3000} << 20) == 0);
                   REQUIRE(cuda.cuMemAlloc_v2(&more, std::size_t{2000} << 20) == 2);
                   // 24 blocks on 12 SMs take twice as long as 12.
                   CudaEventHandle events[3] = {};
                   for (auto& event : events) REQUIRE(cuda.cuEventCreate(&event, 0u) == 0);
                   const auto spin = cuda.kernel("tranche_spin");
                   std::chrono::steady_clock::time_point begin;
                   do {  // again where the queue ran dry
                     begin = std::chrono::steady_clock::now();
                     REQUIRE(cuda.launch(spin, 12u, out, 4000000u) == 0);  // 0.1 s: later work queues behind it
                     REQUIRE(cuda.cuEventRecord(events[0], nullptr) == 0 && cuda.launch(spin, 12u, out, 40000u) == 0);
                     REQUIRE(cuda.cuEventRecord(events[1], nullptr) == 0 && cuda.launch(spin, 24u, out, 40000u) == 0);
                     REQUIRE(cuda.cuEventRecord(events[2], nullptr) == 0);
                   } while (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(90));
                   REQUIRE(cuda.cuEventSynchronize(events[2]) == 0);
                   float once = 0, twice = 0;
                   REQUIRE(cuda.cuEventElapsedTime(&once, events[0], events[1]) == 0);
                   REQUIRE(cuda.cuEventElapsedTime(&twice, events[1], events[2]) == 0);
                   REQUIRE(once > 0.9f && twice > 1.9f * once && twice < 2.1f * once);
                   for (auto& event : events) REQUIRE(cuda.cuEventDestroy_v2(event) == 0);
                   std::vector<std::uint32_t> ran_on(96);
                   REQUIRE(cuda.launch(cuda.kernel("tranche_smid"), 96u, out, 100u) == 0);
                   REQUIRE(cuda.cuMemcpyDtoH_v2(ran_on.data(), out, ran_on.size() * 4) == 0);
                   REQUIRE(std::set<std::uint32_t>(ran_on.begin(), ran_on.end()).size() == 12u);
                   REQUIRE(cuda.cuMemFree_v2(out) == 0 && cuda.cuMemGetInfo_v2(&free_bytes, &total) == 0);
                   REQUIRE(free_bytes == 4219729520u);
                   REQUIRE(cuda.cuDevicePrimaryCtxRelease_v2(0) == 0);
                   return 0;
                 }),
      0);
  (void)world.daemon().lines_until(" disconnected");
  EXPECT_EQ(world.node()->processes(0).size(), 1u) << "only the server is left";
}

TEST(LibCuda, AnIllegalAddressIsStickyAndTakesThePeersAlong) {
  MpsWorld world;
  world.start_daemon();
  const auto peer = world.client();
  const auto program = [](Driver& cuda) {
    CudaContextHandle context = nullptr;
    CudaAddress out = 0;
    REQUIRE(cuda.cuInit(0u) == 0 && cuda.cuCtxCreate_v2(&context, 0u, 0) == 0);
    REQUIRE(cuda.cuMemAlloc_v2(&out, std::size_t{4096}) == 0);
    REQUIRE(cuda.launch(cuda.kernel("tranche_fill"), 1u, out, 1u << 24, 1u) == 0);
    REQUIRE(cuda.cuCtxSynchronize() == 700);
    CudaModuleHandle module = nullptr;
    REQUIRE(cuda.cuModuleLoadData(&module, kPtx) == 700);
    return 0;
  };
  EXPECT_EQ(as_program(world, {}, program), 0);
  EXPECT_EQ(peer.process->wait(), 70);
}

TEST(LibCuda, WithoutAGpuInitSaysSo) {
  MpsWorld world;
  const auto program = [](Driver& cuda) {
    REQUIRE(cuda.cuInit(0u) == 100);
    return 0;
  };
  EXPECT_EQ(as_program(world, {{"NVIDIA_VISIBLE_DEVICES", "void"}}, program), 0);
}

}  // namespace
}  // namespace tranche::sim
