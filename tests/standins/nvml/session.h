#pragma once
// The layer between a C call and the simulated node: reference-counted initialisation, handles and their validation,
// injected faults, lost GPUs. The library is global by nature (its interface has no context argument); its few globals
// are all in session.cpp. Thread-safe; a call in progress keeps the node mapped while another thread shuts down.
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "abi.h"
#include "node/mig.h"
#include "node/sim_node.h"

// Exported, with the C calling convention.
#define NVML extern "C" __attribute__((visibility("default")))

namespace tranche::sim::nvml {

enum class HandleKind : u32 { kGpu, kMig, kGpuInstance, kComputeInstance };

// One row of a fixed table, never freed, so that any pointer can be checked against it.
struct Handle {
  HandleKind kind;
  i32 gpu;
  u32 gpu_instance;  // ids, not slots
  u32 compute_instance;
};
const Handle* gpu_handle(int gpu);
const Handle* mig_handle(int gpu, u32 gi, u32 ci);
const Handle* gi_handle(int gpu, u32 gi);
const Handle* ci_handle(int gpu, u32 gi, u32 ci);

Return begin_session(bool every_gpu_must_answer);
Return end_session();
void forget_event_sets();              // they are invalid after the last shutdown
std::shared_ptr<Node> session_node();  // null before init and after the last shutdown
std::vector<int> session_gpus();       // plugged in at the first init, in the driver's order
std::string session_driver();          // its version at that time
int session_cuda();

enum class Accept { kGpu, kMig, kGpuOrMig, kGpuInstance, kComputeInstance };

// The checks at the beginning of every call.
class Call {
 public:
  explicit Call(std::string_view name);  // a call without a GPU
  Call(std::string_view name, const void* handle, Accept accept);
  ~Call();  // kills the program if a fault requires it: the call's work is done
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Return refusal() const { return refusal_; }  // kSuccess: continue
  Node& node() const { return *node_; }
  int index() const { return handle_->gpu; }
  const Handle& handle() const { return *handle_; }
  bool is_mig() const { return handle_->kind == HandleKind::kMig; }
  const GpuState& gpu() const { return gpu_; }
  const GpuProfile& profile() const { return gpu_.profile; }
  const GpuInstanceState& gi() const { return *gi_; }  // of MIG, GPU instance and compute instance handles
  const ComputeInstanceState& ci() const { return *ci_; }
  const GiProfile& gi_profile() const { return gpu_.profile.mig.profiles[gi_->profile]; }
  bool mig_on() const { return gpu_.mig_mode != 0; }
  bool may_change() const;             // has the rights for a change, if the node requires them
  bool lies() const { return lies_; }  // returns success and does nothing
  u32 driver_major() const;

 private:
  Return check_fault(std::string_view name, int gpu);
  Return check_handle(const void* handle, Accept accept);

  std::shared_ptr<Node> node_;
  const Handle* handle_ = nullptr;
  GpuState gpu_{};
  const GpuInstanceState* gi_ = nullptr;
  const ComputeInstanceState* ci_ = nullptr;
  Return refusal_ = kSuccess;
  bool lies_ = false;
  bool dies_ = false;
};

// The pattern of most calls: check, refuse a null output, fill it.
template <class Out, class Fill>
Return answer(std::string_view name, const void* handle, Accept accept, Out* out, Fill fill) {
  const Call call(name, handle, accept);
  if (call.refusal() != kSuccess) return call.refusal();
  if (out == nullptr) return kInvalidArgument;
  if constexpr (std::is_void_v<decltype(fill(call, *out))>) {
    fill(call, *out);
    return kSuccess;
  } else {
    return fill(call, *out);
  }
}

// The same for structs that begin with a version, which must be one of the given ones.
template <class Out, class Fill>
Return answer_versioned(std::string_view name, const void* handle, Accept accept, Out* out, u32 version, Fill fill) {
  return answer(name, handle, accept, out, [&](const Call& call, Out& into) -> Return {
    if (into.version != version) return kArgumentVersionMismatch;
    if constexpr (std::is_void_v<decltype(fill(call, into))>) {
      fill(call, into);
      return kSuccess;
    } else {
      return fill(call, into);
    }
  });
}

Return copy_text(std::string_view text, char* into, u32 length);  // kInsufficientSize when it does not fit with its NUL
template <std::size_t N>
void put_text(std::string_view text, char (&into)[N]) {
  copy_text(text.substr(0, N - 1), into, N);
}

// The counted-array protocol: `count` is the available space on input and the number of entries on output.
template <class Entry, class Source, class Convert>
Return put_array(const Source& source, u32* count, Entry* into, Convert convert) {
  const u32 room = *count;
  const u32 needed = static_cast<u32>(source.size());
  *count = needed;
  if (needed > room) return kInsufficientSize;
  if (needed > 0 && into == nullptr) return kInvalidArgument;
  for (u32 i = 0; i < needed; ++i) into[i] = convert(source[i]);
  return kSuccess;
}

Return lie(const Call& call);             // success, and a mark for tests that nothing was done
void raise_mig_change(const Call& call);  // raises the event that instances were created or destroyed
u64 now_us();                             // wall clock, as the library stamps samples

}  // namespace tranche::sim::nvml
