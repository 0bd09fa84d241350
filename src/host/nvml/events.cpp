#include "host/nvml/events.h"

namespace tranche::host::nvml {

Events::Events(const Library& library, const std::vector<Held>& gpus) : library_(library) {
  const Functions& f = library.functions();
  if (call(f.event_set_create, &set_) != Return::kSuccess) {
    set_ = nullptr;
    return;
  }
  for (const Held& gpu : gpus) {
    std::uint64_t supported = 0;
    if (call(f.supported_events, gpu.device, &supported) != Return::kSuccess) continue;
    const std::uint64_t faults = (kEventXid | kEventEccDouble | kEventEccSingle) & supported;
    if (faults != 0 && call(f.register_events, gpu.device, faults, set_) == Return::kSuccess) ++registered_;
    // A call of its own: older drivers refuse this bit, and with it all others of the same call.
    if ((supported & kEventMigChange) != 0) call(f.register_events, gpu.device, kEventMigChange, set_);
  }
}

Events::~Events() {
  if (set_ != nullptr) call(library_.functions().event_set_free, set_);
}

Return Events::wait(std::uint32_t timeout_ms, EventData& event) const {
  if (set_ == nullptr || registered_ == 0) return Return::kTimeout;
  event = EventData{nullptr, 0, 0, kNoInstance, kNoInstance};
  const Functions& f = library_.functions();
  const Return code = call(f.event_wait, set_, &event, timeout_ms);
  if (!f.event_wait_fills_instances) event.gpu_instance = event.compute_instance = kNoInstance;
  return code;
}

}  // namespace tranche::host::nvml
