#include "gpu/driver/session.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/time.h"
#include "gpu/inventory/inventory.h"
#include "os/clock/clock.h"

namespace tranche::gpu::nvml {
namespace {

constexpr int kProbesPerRestart = 4;  // a GPU that was reset may need a restarted library
// A device node appears before its GPU answers, and disappears after the GPU no longer does.
constexpr int kFreshStarts = 4;      // per change of the kernel's signs, while the inventory stays the same …
constexpr int kFreshStartPause = 3;  // … each after a pause this many times longer

// In nanoseconds: a sampling interval of a few milliseconds does not tolerate rounding up to the next one.
timespec to_wait(Duration duration) {
  constexpr Duration kLongest = std::chrono::minutes(1);
  const auto ns = std::clamp<Duration>(duration, Duration{}, kLongest).count();
  constexpr auto kSecond = Duration(std::chrono::seconds(1)).count();
  return {.tv_sec = static_cast<time_t>(ns / kSecond), .tv_nsec = static_cast<long>(ns % kSecond)};
}

}  // namespace

void Session::run() {
  channel_->works();
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
    all_lost(opened.error());
    channel_->report_inventory(std::unexpected(std::move(opened).error()));
    reported_.reset();
    return false;
  }
  driver_ = *std::move(opened);
  return true;
}

void Session::close_driver() {
  flush_events();
  events_.reset();
  telemetry_.forget(driver_->library());
  sampler_.handles({});
  if (!sampler_.samples().empty()) channel_->report_sample(sampler_.samples());
  driver_.reset();
}

// The driver's control device appears when its module is loaded; this wait then ends before the back-off does.
void Session::wait_for_driver() {
  const MonoTime until = os::mono_now() + retry_;
  retry_ = std::min(retry_ * 2, settings_.retry_most);
  DeviceHints arrival(settings_.system_root);
  for (MonoTime now = os::mono_now(); now < until; now = os::mono_now()) {
    pollfd fds[2] = {{channel_->wake_fd(), POLLIN, 0}, {arrival.fd(), POLLIN, 0}};
    channel_->rests();
    const timespec wait = to_wait(until - now);
    ::ppoll(fds, arrival.fd() >= 0 ? 2 : 1, &wait, nullptr);
    channel_->works();
    Requests requests = channel_->take();
    const bool again = requests.rescan || requests.stop;
    refuse(std::move(requests));
    if (again || arrival.seen()) return;
  }
}

void Session::refuse(Requests requests) {
  const auto reason = [] { return fail(Kind::kUnavailable, "there is no NVIDIA driver yet", "libnvidia-ml.so.1"); };
  if (requests.use) channel_->report_use(reason());
  if (requests.sample) (void)sampler_.follow(*std::move(requests.sample), os::mono_now());
  for (ModeRequest& request : requests.modes) channel_->report_mode(std::move(request), reason());
}

void Session::serve() {
  hinted_ = false;
  (void)hints_.seen();  // earlier ones; a later change is in the signs, or causes a hint
  signs_ = look_at_kernel(settings_.system_root);
  signs_at_ = os::mono_now() + settings_.signs_every;
  afresh_at_ = MonoTime::max();
  probe_every_ = watch_every_ = settings_.probe_first;
  probe_at_ = watch_at_ = look_at_ = os::mono_now() + settings_.probe_first;
  events_again_at_ = events_at_ = MonoTime{};
  event_failures_ = 0;
  event_pause_ = settings_.event_retry_first;
  usable_ = scan_and_register(true);
  if (usable_) retry_ = settings_.retry_first;
  while (usable_) {
    const bool asked = wait(telemetry_.under_way() ? MonoTime{} : std::min({events_at_, afresh_at_, sampler_.due()}));
    if (asked) {
      Requests requests = channel_->take();
      if (requests.stop) return;
      answer(std::move(requests));
    }
    if (!usable_) return;
    const MonoTime now = os::mono_now();
    if (now >= sampler_.due()) {
      if (sampler_.round(driver_->library(), os::mono_now()))
        channel_->report_sample(sampler_.samples());
      else
        channel_->sampled(sampler_.samples());
    }
    if (telemetry_.step(driver_->library(), now)) channel_->report_telemetry(telemetry_.round());
    if (!asked && !hinted_ && now < std::min(events_at_, afresh_at_)) continue;
    events_at_ = next_on_grid(now, settings_.event_pace);
    if (now >= events_again_at_) drain_events();
    if (usable_) look_after();
  }
}

void Session::look_after() {
  const MonoTime now = os::mono_now();
  look_at_signs(now);
  if (now >= afresh_at_) return start_afresh();
  if (now >= watch_at_) watch_again();
  if (now >= look_at_) {
    look_at_ = now + settings_.probe_first;
    const bool all_watched = events_->registered() == driver_->held().size() && event_failures_ == 0;
    if (!all_watched && find_lost()) return;
  }
  const bool incomplete = unplaced_ || !driver_->missing().empty() || driver_->held().empty();
  if (usable_ && incomplete && now >= probe_at_) probe_missing();
}

void Session::look_at_signs(MonoTime now) {
  if (!std::exchange(hinted_, false) && now < signs_at_) return;
  signs_at_ = now + settings_.signs_every;
  auto signs = look_at_kernel(settings_.system_root);
  if (signs == signs_) return;
  signs_ = std::move(signs);
  afresh_at_ = now + settings_.signs_settle;
  afresh_ = 0;
}

void Session::start_afresh() {
  const auto before = reported_;
  close_driver();
  usable_ = open_driver() && scan_and_register(false);
  if (!usable_) return;
  const bool again = reported_ == before && ++afresh_ < kFreshStarts;
  afresh_at_ = MonoTime::max();
  Duration pause = settings_.signs_settle;
  for (int i = 0; again && i < afresh_; ++i) pause *= kFreshStartPause;
  if (again) afresh_at_ = os::mono_now() + pause;
}

bool Session::wait(MonoTime until) {
  pollfd fds[2] = {{channel_->wake_fd(), POLLIN, 0}, {hints_.fd(), POLLIN, 0}};
  channel_->rests();
  const timespec most = to_wait(until - os::mono_now());
  ::ppoll(fds, hints_.fd() >= 0 ? 2 : 1, &most, nullptr);
  channel_->works();
  if (fds[1].revents != 0) hinted_ = hints_.seen() || hinted_;
  return fds[0].revents != 0;
}

void Session::answer(Requests requests) {
  if (requests.rescan) {
    // The caller may know of an added GPU that the running library does not count.
    if (auto signs = look_at_kernel(settings_.system_root); signs != signs_) {
      signs_ = std::move(signs);
      start_afresh();
    }
    if (!driver_) return refuse(std::move(requests));
    if (usable_) usable_ = scan_and_register(true);
  }
  if (requests.use) {
    Result<std::vector<GpuUse>> use = driver_->use();
    const bool someone_silent = !use || use->size() < driver_->held().size();
    channel_->report_use(std::move(use));
    if (someone_silent) find_lost();
  }
  if (requests.sample && sampler_.follow(*std::move(requests.sample), os::mono_now()))
    sampler_.handles(driver_->held());
  if (requests.measure) telemetry_.begin(driver_->held());
  for (ModeRequest& request : requests.modes) {
    Status status = driver_->set_compute_mode(request.gpu_uuid, request.mode);
    channel_->report_mode(std::move(request), std::move(status));
  }
}

bool Session::scan_and_register(bool report_always) {
  flush_events();
  events_.reset();
  telemetry_.forget(driver_->library());
  Result<inventory::Inventory> scanned = driver_->scan();
  if (!scanned) {
    channel_->report_inventory(std::move(scanned));
    reported_.reset();
    return false;
  }
  new_events();
  sampler_.handles(driver_->held());
  for (const Held& gpu : driver_->held()) {
    known_.insert(gpu.uuid);
    if (lost_.erase(gpu.uuid) != 0) channel_->report_event({.what = GpuEvent::What::kBack, .gpu_uuid = gpu.uuid});
  }
  unplaced_ = std::ranges::any_of(scanned->gpus, [](const inventory::Gpu& gpu) {
    return std::ranges::any_of(gpu.mig_devices, [](const auto& mig) { return !inventory::is_placed(mig); });
  });
  if (report_always || reported_ != *scanned) {
    reported_ = *scanned;
    channel_->report_inventory(std::move(scanned));
  }
  report_watches();
  return true;
}

// Probes first and rescans only on a change: a new event set misses what happens while it is created. The library is
// restarted only for lost GPUs, because a restart briefly releases all other GPUs.
void Session::probe_missing() {
  probe_every_ = std::min(probe_every_ * 2, settings_.probe_most);
  const bool lost = std::ranges::any_of(driver_->missing(), &Missing::lost) || driver_->held().empty();
  if (lost && ++probes_ % kProbesPerRestart == 0) {
    close_driver();
    usable_ = open_driver() && scan_and_register(false);
  } else if (unplaced_ || driver_->more_answer()) {
    usable_ = scan_and_register(false);
  }
  probe_at_ = os::mono_now() + probe_every_;
}

}  // namespace tranche::gpu::nvml
