#include "gpu/driver/events.h"

#include <algorithm>

namespace tranche::gpu::nvml {
namespace {

constexpr std::uint64_t kFaults = kEventXid | kEventEccDouble | kEventEccSingle;

}  // namespace

Events::Events(const Library& library, const std::vector<Held>& gpus, bool faults)
    : library_(library), faults_(faults) {
  create();
  for (const Held& gpu : gpus) {
    Watch made = watch(gpu);
    if (faults_) watches_.push_back(std::move(made));
  }
}

Events::~Events() {
  if (set_ != nullptr) call(library_.functions().event_set_free, set_);
}

bool Events::create() {
  const Return code = call(library_.functions().event_set_create, &set_);
  if (code == Return::kSuccess) return true;
  set_ = nullptr;
  no_set_ = to_string(library_.error(code, "no event set can be made", "nvmlEventSetCreate"));
  return false;
}

Watch Events::watch(const Held& gpu) {
  const auto ended = [&](Watch::State state, Return code, const char* where) {
    return Watch{gpu.uuid, code == Return::kNotSupported ? Watch::State::kUnsupported : state,
                 to_string(library_.error(code, "its events cannot be asked for", where))};
  };
  if (set_ == nullptr) return {gpu.uuid, Watch::State::kFailed, no_set_};
  const Functions& f = library_.functions();
  std::uint64_t supported = 0;
  if (const Return code = call(f.supported_events, gpu.device, &supported); code != Return::kSuccess)
    return ended(Watch::State::kFailed, code, "nvmlDeviceGetSupportedEventTypes");
  // One call per group of bits: older drivers refuse a bit that they do not know together with all others of the call.
  const auto add = [&](std::uint64_t bits) {
    const Return code = call(f.register_events, gpu.device, bits, set_);
    if (code == Return::kSuccess) registered_.insert(gpu.uuid);
    return code;
  };
  Watch result{gpu.uuid, Watch::State::kWatched, {}};
  if (faults_) {
    if (const std::uint64_t faults = kFaults & supported; (faults & kEventXid) == 0) {
      result = {gpu.uuid, Watch::State::kUnsupported, "this GPU or its driver reports no XID events"};
    } else if (const Return code = add(faults); code != Return::kSuccess) {
      result = ended(Watch::State::kFailed, code, "nvmlDeviceRegisterEvents");
    }
    if ((supported & kEventDemand) != 0) add(kEventDemand);
  }
  if ((supported & kEventMigChange) != 0) add(kEventMigChange);
  return result;
}

void Events::try_again(const std::vector<Held>& gpus) {
  if (set_ == nullptr && !create()) return;
  for (Watch& old : watches_) {
    const auto gpu = std::ranges::find(gpus, old.uuid, &Held::uuid);
    if (old.state != Watch::State::kFailed || gpu == gpus.end()) continue;
    old = watch(*gpu);
  }
}

Return Events::wait(std::uint32_t timeout_ms, EventData& event) const {
  if (set_ == nullptr || registered_.empty()) return Return::kTimeout;
  event = EventData{nullptr, 0, 0, kNoInstance, kNoInstance};
  const Functions& f = library_.functions();
  const Return code = call(f.event_wait, set_, &event, timeout_ms);
  if (!f.event_wait_fills_instances) event.gpu_instance = event.compute_instance = kNoInstance;
  return code;
}

}  // namespace tranche::gpu::nvml
