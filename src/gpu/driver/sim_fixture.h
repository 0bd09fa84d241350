#pragma once
// A simulated node for the tests of this folder, discovered the way a real one is: its driver library under a driver
// root, its sysfs under a system root.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "gpu/driver/nvml.h"
#include "standins/node/test_node.h"
#include "standins/nvml/abi.h"

namespace tranche::gpu::nvml {

class SimFixture {
 public:
  explicit SimFixture(const std::string& yaml) : place_(yaml), node_(place_.open()) {
    ::setenv(sim::kNodeVariable, place_.dir().c_str(), 1);
    std::filesystem::create_directories(root() + "/usr/lib64");
    std::filesystem::create_directories(root() + "/dev");
    add_library();
  }

  sim::Node& node() { return *node_; }
  std::string root() const { return place_.dir() + "/root"; }
  void add_library() {
    const char* build = std::getenv("TRANCHE_BUILD");
    const std::string library = std::string(build != nullptr ? build : ".") + "/standins/libnvidia-ml.so.1";
    ASSERT_EQ(::access(library.c_str(), R_OK), 0) << library;
    // Keeps the library mapped: memory that the stand-in holds until the process exits would look like a leak after an
    // unmap.
    ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    put(library, root() + "/usr/lib64/libnvidia-ml.so.1");
  }
  // Whether a thread still uses the library. Its node is the process's: until the last thread has shut it down, the
  // next fixture would be served the node of this one.
  bool library_in_use() const {
    void* library = ::dlopen((root() + "/usr/lib64/libnvidia-ml.so.1").c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (library == nullptr) return false;
    const auto count = reinterpret_cast<sim::nvml::Return (*)(unsigned*)>(::dlsym(library, "nvmlDeviceGetCount_v2"));
    unsigned gpus = 0;
    const bool used = count(&gpus) != sim::nvml::kUninitialized;
    ::dlclose(library);
    return used;
  }
  // Links are resolved inside the driver root, so a symbolic link to the build folder would be dangling.
  static void put(const std::string& library, const std::string& at) {
    std::error_code not_here;
    std::filesystem::create_hard_link(library, at, not_here);  // the same file, hence the same mapping
    if (not_here) std::filesystem::copy_file(library, at);
  }
  void remove_library() { std::filesystem::remove(root() + "/usr/lib64/libnvidia-ml.so.1"); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }

  NvmlSettings settings() const {
    NvmlSettings settings;
    settings.driver_root = root();
    settings.system_root = root();
    return settings;
  }
  // Of a call on one GPU, -1 = on any: after `skip` calls, so many `times`, 0 = until cleared.
  void fault(sim::FaultKind kind, const char* call, std::uint32_t value = 0, std::uint32_t skip = 0,
             std::uint32_t times = 0, int gpu = -1) {
    sim::Fault one{.call = {}, .gpu = gpu, .kind = kind, .value = value, .skip = skip, .times = times};
    one.call = call;
    ASSERT_TRUE(node_->add_fault(one));
  }
  void fail_call(const char* call, int gpu, std::uint32_t code) { fault(sim::FaultKind::kFail, call, code, 0, 0, gpu); }
  void hang_call(const char* call, std::uint32_t ms, int gpu = -1) {  // 0 ms = until cleared
    fault(sim::FaultKind::kHang, call, ms, 0, 0, gpu);
  }
  void lose(int gpu, bool lost) {
    node_->update_gpu(gpu, [lost](sim::GpuState& state) { state.lost = lost ? 1 : 0; });
  }

 private:
  sim::TestNode place_;
  std::unique_ptr<sim::Node> node_;
};

}  // namespace tranche::gpu::nvml
