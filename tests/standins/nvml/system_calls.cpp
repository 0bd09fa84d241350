// Library lifecycle, texts, and properties of the whole node.
#include <fstream>
#include <string>

#include "base/text.h"
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

const char* text_of(i32 code) {
  switch (code) {
    case 0:
      return "Success";
    case 1:
      return "Uninitialized";
    case 2:
      return "Invalid Argument";
    case 3:
      return "Not Supported";
    case 4:
      return "Insufficient Permissions";
    case 5:
      return "Already Initialized";
    case 6:
      return "Not Found";
    case 7:
      return "Insufficient Size";
    case 8:
      return "Insufficient External Power";
    case 9:
      return "Driver Not Loaded";
    case 10:
      return "Timeout";
    case 11:
      return "Interrupt Request Issue";
    case 12:
      return "NVML Shared Library Not Found";
    case 13:
      return "Function Not Found";
    case 14:
      return "Corrupted infoROM";
    case 15:
      return "GPU is lost";
    case 16:
      return "GPU requires reset";
    case 17:
      return "The operating system has blocked the request";
    case 18:
      return "Driver/library version mismatch";
    case 19:
      return "In use by another client";
    case 20:
      return "Insufficient Memory";
    case 21:
      return "No data";
    case 22:
      return "vGPU with ECC not supported";
    case 23:
      return "Insufficient Resources";
    case 24:
      return "Frequency not supported";
    case 25:
      return "Argument version mismatch";
    case 26:
      return "Deprecated";
    case 27:
      return "System not ready";
    case 28:
      return "No GPUs found";
    case 29:
      return "Invalid state";
    case 30:
      return "Reset type not supported";
    default:
      return "Unknown Error";
  }
}

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
  return text_of(static_cast<i32>(code));
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
