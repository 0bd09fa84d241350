#include "host/nvml/session.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "host/clock/clock.h"
#include "host/nvml/arrival.h"

namespace tranche::host::nvml {
namespace {

constexpr Duration kEventPause = std::chrono::seconds(1);  // after a failed wait: it would fail again at once
constexpr int kMostEventFailures = 30;
constexpr int kProbesPerRestart = 4;  // a GPU that was reset may need the library started afresh
constexpr std::uint32_t kEventWaitMs = 1;
constexpr int kEventsPerTurn = 64;  // so that a storm of events does not keep requests waiting

int to_poll_ms(Duration duration) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::clamp<long long>(ms, 0, 60'000));
}

}  // namespace

void Session::run() {
  retry_ = settings_.retry_first;
  while (!channel_->stopping()) {
    if (open_driver()) {
      serve();
      close_driver();
    }
    if (!channel_->stopping()) wait_for_driver();
  }
}

bool Session::open_driver() {
  Result<std::unique_ptr<Driver>> opened = Driver::open(settings_);
  if (!opened) {
    channel_->tell_inventory(std::unexpected(std::move(opened).error()));
    told_.reset();
    return false;
  }
  driver_ = *std::move(opened);
  return true;
}

void Session::close_driver() {
  flush_events();
  events_.reset();
  driver_.reset();
}

// The driver's control device appears when its module is loaded: no need to wait for the back-off to end then.
void Session::wait_for_driver() {
  const MonoTime until = mono_now() + retry_;
  retry_ = std::min(retry_ * 2, settings_.retry_most);
  Arrival arrival(settings_.system_root);
  for (MonoTime now = mono_now(); now < until; now = mono_now()) {
    pollfd fds[2] = {{channel_->wake_fd(), POLLIN, 0}, {arrival.fd(), POLLIN, 0}};
    ::poll(fds, arrival.fd() >= 0 ? 2 : 1, to_poll_ms(until - now));
    Requests requests = channel_->take();
    const bool again = requests.rescan || requests.stop;
    refuse(std::move(requests));
    if (again || arrival.seen()) return;
  }
}

void Session::refuse(Requests requests) {
  const auto reason = [] { return fail(Kind::kUnavailable, "there is no NVIDIA driver yet", "libnvidia-ml.so.1"); };
  if (requests.use) channel_->tell_use(reason());
  for (ModeRequest& request : requests.modes) channel_->tell_mode(std::move(request), reason());
}

void Session::serve() {
  usable_ = scan_and_register(true);
  probe_every_ = settings_.probe_first;
  probe_at_ = mono_now() + probe_every_;
  events_again_at_ = MonoTime::min();
  event_failures_ = 0;
  if (usable_) retry_ = settings_.retry_first;
  while (usable_) {
    wait(settings_.event_pace);
    Requests requests = channel_->take();
    if (requests.stop) return;
    answer(std::move(requests));
    if (usable_ && mono_now() >= events_again_at_) drain_events();
    const bool incomplete = !driver_->missing().empty() || driver_->held().empty();
    if (usable_ && incomplete && mono_now() >= probe_at_) probe_missing();
  }
}

void Session::wait(Duration at_most) {
  pollfd wake{channel_->wake_fd(), POLLIN, 0};
  ::poll(&wake, 1, to_poll_ms(at_most));
}

void Session::answer(Requests requests) {
  if (requests.rescan) usable_ = scan_and_register(true);
  if (requests.use) {
    Result<std::vector<GpuUse>> use = driver_->use();
    const bool someone_silent = !use || use->size() < driver_->held().size();
    channel_->tell_use(std::move(use));
    if (someone_silent) find_lost();
  }
  for (ModeRequest& request : requests.modes) {
    Status status = driver_->set_compute_mode(request.gpu_uuid, request.mode);
    channel_->tell_mode(std::move(request), std::move(status));
  }
}

bool Session::scan_and_register(bool tell_always) {
  flush_events();
  events_.reset();
  Result<inventory::Inventory> scanned = driver_->scan();
  if (!scanned) {
    channel_->tell_inventory(std::move(scanned));
    told_.reset();
    return false;
  }
  events_ = std::make_unique<Events>(driver_->library(), driver_->held());
  for (const Held& gpu : driver_->held()) {
    if (lost_.erase(gpu.uuid) != 0) channel_->tell_event({.what = GpuEvent::What::kBack, .gpu_uuid = gpu.uuid});
  }
  if (tell_always || told_ != *scanned) {
    told_ = *scanned;
    channel_->tell_inventory(std::move(scanned));
  }
  return true;
}

void Session::drain_events() {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    EventData event;
    const Return code = events_->wait(kEventWaitMs, event);
    if (code == Return::kTimeout) {
      event_failures_ = 0;
      return;
    }
    if (code == Return::kSuccess) {
      event_failures_ = 0;
      if (!deliver(event)) continue;
      usable_ = scan_and_register(false);  // MIG handles may now mean other instances
      return;
    }
    if (code == Return::kGpuIsLost && find_lost()) return;
    events_again_at_ = mono_now() + kEventPause;
    if (++event_failures_ >= kMostEventFailures) usable_ = false;
    return;
  }
}

void Session::flush_events() {
  if (!events_) return;
  EventData event;
  for (int i = 0; i < kEventsPerTurn && events_->wait(0, event) == Return::kSuccess; ++i) deliver(event);
}

bool Session::deliver(const EventData& event) {
  GpuEvent told;
  told.gpu_uuid = uuid_of(event.device);
  told.gpu_instance = event.gpu_instance;
  told.compute_instance = event.compute_instance;
  switch (event.event_type) {
    case kEventXid:
      told.what = GpuEvent::What::kXid;
      told.xid = event.event_data;
      break;
    case kEventEccDouble:
      told.what = GpuEvent::What::kEccDouble;
      break;
    case kEventEccSingle:
      told.what = GpuEvent::What::kEccSingle;
      break;
    default:
      return event.event_type == kEventMigChange;
  }
  channel_->tell_event(std::move(told));
  return false;
}

std::string Session::uuid_of(Device device) const {
  for (const Held& gpu : driver_->held()) {
    if (gpu.device == device) return gpu.uuid;
  }
  return {};
}

// Leaves GPUs that the driver calls lost out of the event set, which would otherwise answer GPU_IS_LOST for ever.
bool Session::find_lost() {
  bool found = false;
  for (const Held& gpu : driver_->held()) {
    if (driver_->answers(gpu)) continue;
    found = true;
    if (lost_.insert(gpu.uuid).second) {
      channel_->tell_event({.what = GpuEvent::What::kLost, .gpu_uuid = gpu.uuid});
    }
  }
  if (!found) return false;
  probes_ = 0;
  probe_every_ = settings_.probe_first;
  probe_at_ = mono_now() + probe_every_;
  usable_ = scan_and_register(false);
  return true;
}

// Looks first and rescans only on news: a new event set misses what happens while it is made. Starting the library
// afresh is kept for GPUs that are lost, because it lets go of all the others for a moment.
void Session::probe_missing() {
  probe_every_ = std::min(probe_every_ * 2, settings_.probe_most);
  const bool lost = std::ranges::any_of(driver_->missing(), &Missing::lost) || driver_->held().empty();
  if (lost && ++probes_ % kProbesPerRestart == 0) {
    close_driver();
    usable_ = open_driver() && scan_and_register(false);
  } else if (driver_->more_answer()) {
    usable_ = scan_and_register(false);
  }
  probe_at_ = mono_now() + probe_every_;
}

}  // namespace tranche::host::nvml
