// Library lifecycle, texts, and properties of the whole node.
#include <iterator>
#include <string>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

// `fail nvmlInit…` must work before there is a session: opens the node for this check only.
Return initialise(std::string_view name, bool every_gpu_must_answer) {
  if (const auto node = Node::open()) {
    if (const auto fault = (*node)->fault_for(name, -1)) {
      if (const auto code = (*node)->suffer(*fault); code && *code != 0) return static_cast<Return>(*code);
    }
  }
  return begin_session(every_gpu_must_answer);
}

constexpr const char* kTexts[] = {"Success",
                                  "Uninitialized",
                                  "Invalid Argument",
                                  "Not Supported",
                                  "Insufficient Permissions",
                                  "Already Initialized",
                                  "Not Found",
                                  "Insufficient Size",
                                  "Insufficient External Power",
                                  "Driver Not Loaded",
                                  "Timeout",
                                  "Interrupt Request Issue",
                                  "NVML Shared Library Not Found",
                                  "Function Not Found",
                                  "Corrupted infoROM",
                                  "GPU is lost",
                                  "GPU requires reset",
                                  "The operating system has blocked the request",
                                  "Driver/library version mismatch",
                                  "In use by another client",
                                  "Insufficient Memory",
                                  "No data",
                                  "vGPU with ECC not supported",
                                  "Insufficient Resources",
                                  "Frequency not supported",
                                  "Argument version mismatch",
                                  "Deprecated",
                                  "System not ready",
                                  "No GPUs found",
                                  "Invalid state",
                                  "Reset type not supported"};

Return cuda_version(std::string_view name, i32* version) {
  const Call call(name);
  if (call.refusal() != kSuccess) return call.refusal();
  if (version == nullptr) return kInvalidArgument;
  *version = session_cuda();
  return kSuccess;
}

}  // namespace

NVML Return nvmlInit() {
  return initialise(__func__, true);
}
NVML Return nvmlInit_v2() {
  return initialise(__func__, false);
}
NVML Return nvmlInitWithFlags(u32 flags) {
  constexpr u32 kKnown = 7;
  if ((flags & ~kKnown) != 0) return kInvalidArgument;
  return initialise(__func__, false);
}
NVML Return nvmlShutdown() {
  return end_session();
}
NVML const char* nvmlErrorString(Return code) {
  const auto number = static_cast<std::size_t>(code);
  return number < std::size(kTexts) ? kTexts[number] : "Unknown Error";
}

NVML Return nvmlSystemGetDriverVersion(char* text, u32 length) {
  const Call call(__func__);
  return call.refusal() != kSuccess ? call.refusal() : copy_text(session_driver(), text, length);
}

NVML Return nvmlSystemGetNVMLVersion(char* text, u32 length) {
  const Call call(__func__);
  if (call.refusal() != kSuccess) return call.refusal();
  const std::string version = std::to_string(session_cuda() / 1000) + "." + session_driver();
  return copy_text(version, text, length);
}

NVML Return nvmlSystemGetCudaDriverVersion(i32* version) {
  return cuda_version(__func__, version);
}
NVML Return nvmlSystemGetCudaDriverVersion_v2(i32* version) {
  return cuda_version(__func__, version);
}

}  // namespace tranche::sim::nvml
