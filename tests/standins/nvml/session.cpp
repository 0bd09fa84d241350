#include "session.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/text.h"
#include "node/capabilities.h"

namespace tranche::sim::nvml {
namespace {

constexpr u32 kGis = kMaxGpuInstances;
constexpr u32 kCis = kMaxComputeInstances;
constexpr u32 kPerGpu = 1 + kGis + 2 * kGis * kCis;

constexpr std::array<Handle, kMaxGpus * kPerGpu> make_handles() {
  std::array<Handle, kMaxGpus * kPerGpu> all{};
  std::size_t at = 0;
  for (i32 gpu = 0; gpu < kMaxGpus; ++gpu) {
    all[at++] = {HandleKind::kGpu, gpu, kWholeGpu, kWholeGpu};
    for (u32 gi = 0; gi < kGis; ++gi) all[at++] = {HandleKind::kGpuInstance, gpu, gi, kWholeGpu};
    for (const auto kind : {HandleKind::kMig, HandleKind::kComputeInstance}) {
      for (u32 i = 0; i < kGis * kCis; ++i) all[at++] = {kind, gpu, i / kCis, i % kCis};
    }
  }
  return all;
}
constexpr auto kHandles = make_handles();

const Handle* entry(int gpu, u32 offset) {
  return &kHandles[static_cast<u32>(gpu) * kPerGpu + offset];
}

const Handle* known(const void* pointer) {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto begin = reinterpret_cast<std::uintptr_t>(kHandles.data());
  if (at < begin || at >= begin + sizeof(kHandles) || (at - begin) % sizeof(Handle) != 0) return nullptr;
  return static_cast<const Handle*>(pointer);
}

struct Session {
  std::mutex mutex;
  int references = 0;
  bool ever = false;
  std::shared_ptr<Node> node;
  std::vector<int> gpus;
  std::string driver;
  int cuda = 0;
};
Session& session() {
  static Session* const the_session = new Session;  // exists as long as the process: exit handlers may make calls
  return *the_session;
}

bool accepts(Accept accept, HandleKind kind) {
  switch (accept) {
    case Accept::kGpu:
      return kind == HandleKind::kGpu;
    case Accept::kMig:
      return kind == HandleKind::kMig;
    case Accept::kGpuOrMig:
      return kind == HandleKind::kGpu || kind == HandleKind::kMig;
    case Accept::kGpuInstance:
      return kind == HandleKind::kGpuInstance;
    case Accept::kComputeInstance:
      return kind == HandleKind::kComputeInstance;
  }
  return false;
}

}  // namespace

const Handle* gpu_handle(int gpu) {
  return entry(gpu, 0);
}
const Handle* gi_handle(int gpu, u32 gi) {
  return entry(gpu, 1 + gi);
}
const Handle* mig_handle(int gpu, u32 gi, u32 ci) {
  return entry(gpu, 1 + kGis + gi * kCis + ci);
}
const Handle* ci_handle(int gpu, u32 gi, u32 ci) {
  return entry(gpu, 1 + kGis + kGis * kCis + gi * kCis + ci);
}

Return begin_session(bool every_gpu_must_answer) {
  Session& shared = session();
  const std::scoped_lock lock(shared.mutex);
  std::shared_ptr<Node> node = shared.node;
  if (node == nullptr) {
    auto opened = Node::open();
    if (!opened) {
      std::fprintf(stderr, "simulated driver library: %s\n", opened.error().c_str());
      return kDriverNotLoaded;
    }
    node = *std::move(opened);
    if (!node->driver_present()) return kDriverNotLoaded;
  }
  const auto gpus = every_gpu_must_answer ? node->gpus().size() : 0;
  for (std::size_t i = 0; i < gpus; ++i) {
    if (node->gpu_state(static_cast<int>(i)).lost != 0) return kGpuIsLost;
  }
  if (shared.node == nullptr) {
    shared.gpus.clear();
    const int all = static_cast<int>(node->gpus().size());
    for (int i = 0; i < all; ++i)
      if (node->gpu_state(i).unplugged == 0) shared.gpus.push_back(i);
    shared.driver = node->driver_version();
    shared.cuda = node->cuda_version();
  }
  shared.node = std::move(node);
  shared.ever = true;
  ++shared.references;
  return kSuccess;
}

Return end_session() {
  Session& shared = session();
  const std::scoped_lock lock(shared.mutex);
  // A surplus shutdown is not an error, for compatibility with old programs; a shutdown without any init is.
  if (shared.references == 0) return shared.ever ? kSuccess : kUninitialized;
  if (--shared.references > 0) return kSuccess;
  const auto last = std::move(shared.node);
  shared.node = nullptr;
  forget_event_sets();
  last->wake_waiters();  // waiters for events return an error
  return kSuccess;
}

std::shared_ptr<Node> session_node() {
  Session& shared = session();
  const std::scoped_lock lock(shared.mutex);
  return shared.node;
}

std::vector<int> session_gpus() {
  Session& shared = session();
  const std::scoped_lock lock(shared.mutex);
  return shared.gpus;
}

std::string session_driver() {
  Session& shared = session();
  const std::scoped_lock lock(shared.mutex);
  return shared.driver;
}

int session_cuda() {
  Session& shared = session();
  const std::scoped_lock lock(shared.mutex);
  return shared.cuda;
}

Call::Call(std::string_view name) : node_(session_node()) {
  refusal_ = node_ == nullptr ? kUninitialized : check_fault(name, -1);
}

Call::Call(std::string_view name, const void* handle, Accept accept) : node_(session_node()) {
  if (node_ == nullptr) {
    refusal_ = kUninitialized;
    return;
  }
  const Handle* found = known(handle);
  refusal_ = check_fault(name, found == nullptr ? -1 : found->gpu);
  if (refusal_ == kSuccess) refusal_ = check_handle(handle, accept);
}

Call::~Call() {
  if (dies_) ::raise(SIGKILL);
}

Return Call::check_fault(std::string_view name, int gpu) {
  const auto fault = node_->fault_for(name, gpu);
  if (!fault) return kSuccess;
  lies_ = fault->kind == FaultKind::kLie;
  dies_ = fault->kind == FaultKind::kKillAfter;
  return static_cast<Return>(node_->suffer(*fault).value_or(kSuccess));
}

Return Call::check_handle(const void* handle, Accept accept) {
  handle_ = known(handle);
  if (handle_ == nullptr || !accepts(accept, handle_->kind)) return kInvalidArgument;
  gpu_ = node_->gpu_state(handle_->gpu);
  if (gpu_.uuid.empty()) return kInvalidArgument;  // this node has fewer GPUs
  if (gpu_.lost != 0 || gpu_.unplugged != 0) return kGpuIsLost;
  if (handle_->kind == HandleKind::kGpu) return kSuccess;
  // Instances are destroyed, and their handles become invalid.
  gi_ = find_gi(gpu_, handle_->gpu_instance);
  if (gi_ == nullptr) return kInvalidArgument;
  if (handle_->kind == HandleKind::kGpuInstance) return kSuccess;
  ci_ = find_ci(*gi_, handle_->compute_instance);
  return ci_ == nullptr ? kInvalidArgument : kSuccess;
}

bool Call::may_change() const {
  return !node_->require_root() || geteuid() == 0;
}

u32 Call::driver_major() const {
  const std::string version = session_driver();
  return static_cast<u32>(parse_unsigned(split(version, '.').front()).value_or(0));
}

Return copy_text(std::string_view text, char* into, u32 length) {
  if (into == nullptr) return kInvalidArgument;
  if (text.size() + 1 > length) return kInsufficientSize;
  std::memcpy(into, text.data(), text.size());
  into[text.size()] = '\0';
  return kSuccess;
}

Return lie(const Call& call) {
  call.node().update_gpu(call.index(), [](GpuState& state) { ++state.mig_lies; });
  return kSuccess;
}

void raise_mig_change(const Call& call) {
  show_capabilities(call.node(), call.index());
  call.node().raise({.sequence = 0,
                     .gpu = call.index(),
                     .kind = EventKind::kMigChange,
                     .data = 0,
                     .gpu_instance = kWholeGpu,
                     .compute_instance = kWholeGpu});
}

u64 now_us() {
  return static_cast<u64>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

}  // namespace tranche::sim::nvml
