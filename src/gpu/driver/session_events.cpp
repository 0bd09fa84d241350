// How a session receives fault events from the driver, and how it reports that it would not receive them.
#include <algorithm>
#include <utility>

#include "gpu/driver/session.h"
#include "os/clock/clock.h"

namespace tranche::gpu::nvml {
namespace {

constexpr int kMostEventFailures = 6;  // in a row; then the library is restarted
constexpr std::uint32_t kEventWaitMs = 1;
constexpr int kEventsPerTurn = 64;  // so that a burst of events does not delay requests
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
  return call(library_.functions().event_wait, set_, &event, timeout_ms);
}

void Session::new_events() {
  events_.reset();
  events_ = std::make_unique<Events>(driver_->library(), driver_->held(), settings_.fault_events);
}

void Session::drain_events() {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    EventData event;
    const Return code = events_->wait(kEventWaitMs, event);
    if (code == Return::kTimeout) return wait_worked();
    if (code == Return::kSuccess) {
      wait_worked();
      if (!deliver(event)) continue;
      usable_ = scan_and_register(false);  // MIG handles may now refer to different instances
      return;
    }
    if (code == Return::kGpuIsLost && find_lost()) return;
    return wait_failed(code);
  }
}

void Session::wait_worked() {
  if (events_->registered() == 0) return;  // there was nothing to wait for
  event_failures_ = 0;
  event_pause_ = settings_.event_retry_first;
  if (wait_trouble_.empty()) return;
  wait_trouble_.clear();
  report_watches();
}

// A single failure is tolerated: the set is rebuilt without a report. From the second failure on, faults are not seen.
void Session::wait_failed(Return code) {
  events_again_at_ = os::mono_now() + event_pause_;  // an immediate retry would fail again
  event_pause_ = std::min(event_pause_ * 2, settings_.probe_most);
  if (++event_failures_ >= 2)
    wait_trouble_ = to_string(driver_->library().error(code, "waiting for events fails", "nvmlEventSetWait"));
  if (event_failures_ >= kMostEventFailures) {
    usable_ = false;
  } else {
    new_events();
  }
  report_watches();
}

void Session::flush_events() {
  if (!events_) return;
  EventData event;
  for (int i = 0; i < kEventsPerTurn && events_->wait(0, event) == Return::kSuccess; ++i) deliver(event);
}

bool Session::deliver(const EventData& event) {
  GpuEvent gpu_event;
  gpu_event.gpu_uuid = uuid_of(event.device);
  gpu_event.gpu_instance = event.gpu_instance;
  gpu_event.compute_instance = event.compute_instance;
  switch (event.event_type) {
    case kEventDemand:
      gpu_event.what = GpuEvent::What::kDemand;
      break;
    case kEventXid:
      gpu_event.what = GpuEvent::What::kXid;
      gpu_event.xid = event.event_data;
      break;
    case kEventEccDouble:
      gpu_event.what = GpuEvent::What::kEccDouble;
      break;
    case kEventEccSingle:
      gpu_event.what = GpuEvent::What::kEccSingle;
      break;
    default:
      return event.event_type == kEventMigChange;
  }
  channel_->report_event(std::move(gpu_event));
  return false;
}

std::string Session::uuid_of(Device device) const {
  for (const Held& gpu : driver_->held()) {
    if (gpu.device == device) return gpu.uuid;
  }
  std::string uuid;  // of a MIG device's handle, or an unknown one
  if (device != nullptr) read_text(driver_->library().functions().uuid, device, uuid);
  return uuid;
}

void Session::report_watches() {
  std::map<std::string, std::string> unwatched;
  if (events_) {
    for (const Watch& watch : events_->watches()) {
      if (watch.state == Watch::State::kFailed) unwatched[watch.uuid] = watch.why;
      if (watch.state == Watch::State::kUnsupported && unsupported_.insert(watch.uuid).second)
        channel_->report_event({.what = GpuEvent::What::kUnsupported, .gpu_uuid = watch.uuid, .why = watch.why});
    }
  }
  if (!wait_trouble_.empty() && settings_.fault_events)
    for (const Held& gpu : driver_->held()) unwatched.try_emplace(gpu.uuid, wait_trouble_);
  for (const auto& [uuid, why] : unwatched) {
    const auto old = unwatched_.find(uuid);
    if (old == unwatched_.end() || old->second != why)
      channel_->report_event({.what = GpuEvent::What::kUnwatched, .gpu_uuid = uuid, .why = why});
  }
  for (const auto& [uuid, why] : unwatched_)
    if (!unwatched.contains(uuid)) channel_->report_event({.what = GpuEvent::What::kWatched, .gpu_uuid = uuid});
  unwatched_ = std::move(unwatched);
}

void Session::watch_again() {
  const bool failed =
      std::ranges::any_of(events_->watches(), [](const Watch& watch) { return watch.state == Watch::State::kFailed; });
  watch_every_ = failed ? std::min(watch_every_ * 2, settings_.probe_most) : settings_.probe_first;
  watch_at_ = os::mono_now() + watch_every_;
  if (!failed) return;
  events_->try_again(driver_->held());
  report_watches();
}

// Removes GPUs that the driver reports as lost from the event set, which would otherwise return GPU_IS_LOST on every
// wait.
bool Session::find_lost() {
  bool found = false;
  for (const Held& gpu : driver_->held()) {
    if (driver_->answers(gpu)) continue;
    found = true;
    if (lost_.insert(gpu.uuid).second) {
      channel_->report_event({.what = GpuEvent::What::kLost, .gpu_uuid = gpu.uuid, .why = "GPU is lost"});
    }
  }
  if (!found) return false;
  probes_ = 0;
  probe_every_ = settings_.probe_first;
  probe_at_ = os::mono_now() + probe_every_;
  usable_ = scan_and_register(false);
  return true;
}

void Session::all_lost(const Error& why) {
  const auto code = static_cast<Return>(why.code);
  if (code != Return::kDriverNotLoaded && code != Return::kVersionMismatch) return;
  for (const std::string& uuid : known_) {
    if (lost_.insert(uuid).second)
      channel_->report_event({.what = GpuEvent::What::kLost, .gpu_uuid = uuid, .why = to_string(why)});
  }
}

}  // namespace tranche::gpu::nvml
