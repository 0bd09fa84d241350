#pragma once
// The built library as a program uses it: opened with dlopen, every function looked up by its exported name.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "abi.h"
#include "node/sim_node.h"
#include "node/test_node.h"

namespace tranche::sim::nvml {

class Library {
 public:
  Library() {
    const char* build = getenv("TRANCHE_BUILD");
    const std::string path = std::string(build == nullptr ? "." : build) + "/standins/libnvidia-ml.so.1";
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << path;
  }
  // Never closed: the library may hold sessions that a following test ends.
  bool has(const char* name) const { return handle_ != nullptr && dlsym(handle_, name) != nullptr; }

  // Calls by name; the parameter types are those of the arguments, so pass them exactly.
  template <class... Args>
  Return operator()(const char* name, Args... args) const {
    auto* function = reinterpret_cast<Return (*)(Args...)>(handle_ == nullptr ? nullptr : dlsym(handle_, name));
    EXPECT_NE(function, nullptr) << name;
    return function == nullptr ? kUnknown : function(args...);
  }

 private:
  void* handle_ = nullptr;
};

// A node, the library pointed at it and initialised; shut down at the end.
class Session {
 public:
  explicit Session(const std::string& yaml) : place(yaml) {
    setenv(kNodeVariable, place.dir().c_str(), 1);
    EXPECT_EQ(nvml("nvmlInit_v2"), kSuccess);
  }
  ~Session() {
    nvml("nvmlShutdown");
    unsetenv(kNodeVariable);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Device device(u32 index) const {
    Device found = nullptr;
    EXPECT_EQ(nvml("nvmlDeviceGetHandleByIndex_v2", index, &found), kSuccess);
    return found;
  }
  // A call that fills one value and must succeed.
  template <class Value, class... Before>
  Value get(const char* name, Before... before) const {
    Value value{};
    EXPECT_EQ(nvml(name, before..., &value), kSuccess) << name;
    return value;
  }
  std::string text(const char* name, Device device) const {
    char buffer[96] = {};
    EXPECT_EQ(nvml(name, device, &buffer[0], u32{sizeof(buffer)}), kSuccess) << name;
    return buffer;
  }

  Library nvml;
  TestNode place;
};

inline constexpr const char* kFourH200 = "gpus: {profile: H200, count: 4}\ntopology: vm\n";

}  // namespace tranche::sim::nvml
