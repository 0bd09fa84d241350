#include "gpu/driver/session.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/time.h"
#include "gpu/inventory/inventory.h"
#include "os/clock/clock.h"
#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/log/log.h"

namespace tranche::gpu::nvml {
namespace {

using Callbacks = NvmlThread::Callbacks;

constexpr int kProbesPerRestart = 4;  // a GPU that was reset may need a restarted library
// A device node appears before its GPU answers, and disappears after the GPU no longer does.
constexpr int kFreshStarts = 4;      // per change of the kernel's signs, while the inventory stays the same …
constexpr int kFreshStartPause = 3;  // … each after a pause this many times longer

constexpr int kMostEventFailures = 6;  // in a row; then the library is restarted
constexpr std::uint32_t kEventWaitMs = 1;
constexpr int kEventsPerTurn = 64;  // so that a burst of events does not delay requests

std::unique_ptr<os::Loop> open_loop() {
  auto loop = os::Loop::open();
  CHECK_THAT(loop, "an event loop can be opened");
  return *std::move(loop);
}

}  // namespace

Session::Session(os::Loop& home, NvmlThread::Callbacks callbacks, NvmlSettings settings)
    : home_(&home), callbacks_(std::move(callbacks)), settings_(std::move(settings)), loop_(open_loop()) {}

void Session::request(std::function<void(Requests&)> change) {
  loop_->post([this, change = std::move(change)] {
    change(requests_);
    soon();
  });
}

bool Session::stop(Duration patience) {
  loop_->stop();
  const bool ended = ended_.get_future().wait_for(patience) == std::future_status::ready;
  const std::lock_guard lock(mutex_);
  home_ = nullptr;
  return ended;
}

void Session::post(std::function<void(const NvmlThread::Callbacks&)> turn) {
  const std::lock_guard lock(mutex_);
  if (home_ == nullptr) return;
  home_->post([self = shared_from_this(), turn = std::move(turn)] {
    // Without the lock: this is the thread of that loop, the only one that lets go of it.
    if (self->home_ != nullptr) turn(self->callbacks_);
  });
}

void Session::report_mode(ModeRequest request, Status status) {
  post([request = std::move(request), status = std::move(status)](const NvmlThread::Callbacks&) {
    if (request.done) request.done(status);
  });
}

void Session::run() {
  // Only a hint that ends a wait early: sysfs sends no events, and the /dev of a container is often a copy made at its
  // start. The driver's control device appears when its module is loaded.
  const auto hints = os::DirWatch::open(
      *loop_, os::under_root(settings_.system_root, "/dev"),
      [this](const std::string& name) {
        if (!name.empty() && !is_node_of_driver(name)) return;
        hinted_ = true;
        soon();
      },
      os::DirWatch::Of::kEntries);
  soon();
  loop_->run();
  if (driver_) close_driver();
  ended_.set_value();
}

void Session::soon() {
  events_at_ = {};
  timer_.start({}, [this] { turn(); });
}

void Session::turn() {
  working_since_ = os::mono_now();
  const bool tries = !usable_ && (hinted_ || requests_.rescan || os::mono_now() >= open_at_);
  const bool served = usable_;
  if (tries) begin();
  if (usable_) serve();
  if (!usable_ && (tries || served)) {
    if (driver_) close_driver();
    open_at_ = os::mono_now() + doubled(settings_.retry_first, settings_.retry_most, ++failures_);
  }
  if (!usable_) refuse();
  MonoTime next = usable_ ? std::min({events_at_, afresh_at_, sampler_.due()}) : open_at_;
  if (telemetry_.under_way()) next = {};
  working_since_ = MonoTime{};
  timer_.start(next - loop_->now(), [this] { turn(); });
}

bool Session::open_driver() {
  Result<std::unique_ptr<Driver>> opened = Driver::open(settings_);
  if (!opened) {
    all_lost(opened.error());
    report(&Callbacks::on_inventory, std::unexpected(std::move(opened).error()));
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
  if (!sampler_.samples().empty()) report(&Callbacks::on_sample, sampler_.samples());
  driver_.reset();
}

void Session::refuse() {
  const auto reason = [] { return fail(Kind::kUnavailable, "there is no NVIDIA driver yet", "libnvidia-ml.so.1"); };
  Requests requests = std::exchange(requests_, {});
  if (requests.use) report(&Callbacks::on_use, reason());
  if (requests.sample) (void)sampler_.follow(*std::move(requests.sample), os::mono_now());
  for (ModeRequest& request : requests.modes) report_mode(std::move(request), reason());
}

void Session::begin() {
  hinted_ = requests_.rescan = false;
  if (!open_driver()) return;
  signs_ = look_at_kernel(settings_.system_root);
  signs_at_ = os::mono_now() + settings_.signs_every;
  afresh_at_ = MonoTime::max();
  probe_every_ = settings_.probe_first;
  probe_at_ = look_at_ = os::mono_now() + settings_.probe_first;
  events_at_ = events_again_at_ = {};
  event_failures_ = 0;
  usable_ = scan_and_register(true);
  if (usable_) failures_ = 0;
}

void Session::serve() {
  answer();
  if (!usable_) return;
  const MonoTime now = os::mono_now();
  if (now >= sampler_.due() && sampler_.round(driver_->library(), now))
    report(&Callbacks::on_sample, sampler_.samples());
  if (telemetry_.step(driver_->library(), now)) report(&Callbacks::on_telemetry, telemetry_.round());
  if (now < std::min(events_at_, afresh_at_)) return;
  events_at_ = next_on_grid(now, settings_.event_pace);
  if (now >= events_again_at_) drain_events();
  if (usable_) look_after();
}

void Session::look_after() {
  const MonoTime now = os::mono_now();
  look_at_signs(now);
  if (now >= afresh_at_) return start_afresh();
  if (now >= look_at_) {
    look_at_ = now + settings_.probe_first;
    if (!events_->failed().empty()) {
      events_->try_again(driver_->held());
      report_watches();
    }
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

void Session::answer() {
  if (std::exchange(requests_.rescan, false)) {
    // The caller may know of an added GPU that the running library does not count.
    if (auto signs = look_at_kernel(settings_.system_root); signs != signs_) {
      signs_ = std::move(signs);
      start_afresh();
    }
    if (usable_) usable_ = scan_and_register(true);
    if (!usable_) return;
  }
  Requests requests = std::exchange(requests_, {});
  if (requests.use) {
    Result<std::vector<GpuUse>> use = driver_->use();
    const bool someone_silent = !use || use->size() < driver_->held().size();
    report(&Callbacks::on_use, std::move(use));
    if (someone_silent) find_lost();
  }
  if (requests.sample && sampler_.follow(*std::move(requests.sample), os::mono_now()))
    sampler_.handles(driver_->held());
  if (requests.measure) telemetry_.begin(driver_->held());
  for (ModeRequest& request : requests.modes) {
    Status status = driver_->set_compute_mode(request.gpu_uuid, request.mode);
    report_mode(std::move(request), std::move(status));
  }
}

bool Session::scan_and_register(bool report_always) {
  flush_events();
  events_.reset();
  telemetry_.forget(driver_->library());
  Result<Inventory> scanned = driver_->scan();
  if (!scanned) {
    report(&Callbacks::on_inventory, std::move(scanned));
    reported_.reset();
    return false;
  }
  new_events();
  sampler_.handles(driver_->held());
  for (const Held& gpu : driver_->held()) {
    known_.insert(gpu.uuid);
    if (lost_.erase(gpu.uuid) != 0) report(&Callbacks::on_event, {.what = GpuEvent::What::kBack, .gpu_uuid = gpu.uuid});
  }
  unplaced_ = std::ranges::any_of(scanned->gpus, [](const Gpu& gpu) {
    return std::ranges::any_of(gpu.mig_devices, [](const auto& mig) { return !is_placed(mig); });
  });
  if (report_always || reported_ != *scanned) {
    reported_ = *scanned;
    report(&Callbacks::on_inventory, std::move(scanned));
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

// ---- events

Events::Events(const Library& library, const std::vector<Held>& gpus, bool faults)
    : library_(library), faults_(faults) {
  create();
  for (const Held& gpu : gpus) watch(gpu);
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

void Events::watch(const Held& gpu) {
  const auto note = [&](Whys& into, std::string why) {
    if (faults_) into[gpu.uuid] = std::move(why);
  };
  const auto refused = [&](Return code, const char* where) {
    note(code == Return::kNotSupported ? unsupported_ : failed_,
         to_string(library_.error(code, "its events cannot be asked for", where)));
  };
  if (set_ == nullptr) return note(failed_, no_set_);
  const Functions& f = library_.functions();
  std::uint64_t supported = 0;
  if (const Return code = call(f.supported_events, gpu.device, &supported); code != Return::kSuccess)
    return refused(code, "nvmlDeviceGetSupportedEventTypes");
  // One call per bit: older drivers refuse a bit that they do not know together with all others of the call.
  const auto add = [&](std::uint64_t bit) {
    const Return code = call(f.register_events, gpu.device, bit, set_);
    if (code == Return::kSuccess) registered_.insert(gpu.uuid);
    return code;
  };
  if (faults_) {
    if ((supported & kEventXid) == 0) {
      note(unsupported_, "this GPU or its driver reports no XID events");
    } else if (const Return code = add(kEventXid); code != Return::kSuccess) {
      refused(code, "nvmlDeviceRegisterEvents");
    }
    if ((supported & kEventDemand) != 0) add(kEventDemand);
  }
  if ((supported & kEventMigChange) != 0) add(kEventMigChange);
}

void Events::try_again(const std::vector<Held>& gpus) {
  if (set_ == nullptr && !create()) return;
  const Whys before = std::exchange(failed_, {});
  for (const Held& gpu : gpus)
    if (before.contains(gpu.uuid)) watch(gpu);
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
  if (wait_trouble_.empty()) return;
  wait_trouble_.clear();
  report_watches();
}

// A single failure is tolerated: the set is rebuilt without a report. From the second failure on, faults are not seen.
void Session::wait_failed(Return code) {
  // An immediate retry would fail again.
  events_again_at_ = os::mono_now() + doubled(settings_.event_retry_first, settings_.probe_most, ++event_failures_);
  if (event_failures_ >= 2)
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
  const bool xid = event.event_type == kEventXid;
  if (xid || event.event_type == kEventDemand)
    report(&Callbacks::on_event, {.what = xid ? GpuEvent::What::kXid : GpuEvent::What::kDemand,
                                  .gpu_uuid = uuid_of(event.device),
                                  .xid = xid ? event.event_data : 0,
                                  .gpu_instance = event.gpu_instance,
                                  .compute_instance = event.compute_instance});
  return event.event_type == kEventMigChange;
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
  Events::Whys unwatched = events_->failed();
  for (const auto& [uuid, why] : events_->unsupported())
    if (unsupported_.insert(uuid).second)
      report(&Callbacks::on_event, {.what = GpuEvent::What::kUnsupported, .gpu_uuid = uuid, .why = why});
  if (!wait_trouble_.empty() && settings_.fault_events)
    for (const Held& gpu : driver_->held()) unwatched.try_emplace(gpu.uuid, wait_trouble_);
  for (const auto& [uuid, why] : unwatched) {
    const auto old = unwatched_.find(uuid);
    if (old == unwatched_.end() || old->second != why)
      report(&Callbacks::on_event, {.what = GpuEvent::What::kUnwatched, .gpu_uuid = uuid, .why = why});
  }
  for (const auto& [uuid, why] : unwatched_)
    if (!unwatched.contains(uuid)) report(&Callbacks::on_event, {.what = GpuEvent::What::kWatched, .gpu_uuid = uuid});
  unwatched_ = std::move(unwatched);
}

// Removes GPUs that the driver reports as lost from the event set, which would otherwise return GPU_IS_LOST on every
// wait.
bool Session::find_lost() {
  bool found = false;
  for (const Held& gpu : driver_->held()) {
    if (driver_->answers(gpu)) continue;
    found = true;
    if (lost_.insert(gpu.uuid).second) {
      report(&Callbacks::on_event, {.what = GpuEvent::What::kLost, .gpu_uuid = gpu.uuid, .why = "GPU is lost"});
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
      report(&Callbacks::on_event, {.what = GpuEvent::What::kLost, .gpu_uuid = uuid, .why = to_string(why)});
  }
}

}  // namespace tranche::gpu::nvml

namespace tranche::gpu {

NvmlThread::NvmlThread(os::Loop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}

void NvmlThread::start(const NvmlSettings& settings) {
  stop();
  patience_ = settings.patience;
  silence_ = settings.silence;
  session_ = std::make_shared<nvml::Session>(loop_, callbacks_, settings);
  silent_ = false;
  listen();
  thread_ = os::Worker::start();
  thread_->run([session = session_] {
    ::pthread_setname_np(::pthread_self(), "nvml");
    session->run();
  });
}

void NvmlThread::stop() {
  timer_.stop();
  const auto session = std::exchange(session_, nullptr);
  if (!session) return;
  if (!session->stop(patience_)) {
    log::warning("nvml.stuck", {{"what", "a call into the NVIDIA driver has not returned; its thread is left behind"},
                                {"waited_ms", milliseconds_of(patience_)}});
    thread_->leave_behind();  // it owns everything that it may still use
  }
  thread_.reset();
}

void NvmlThread::rescan() {
  if (session_) session_->request([](nvml::Requests& requests) { requests.rescan = true; });
}

void NvmlThread::ask_use() {
  if (session_) session_->request([](nvml::Requests& requests) { requests.use = true; });
}

void NvmlThread::measure() {
  if (session_) session_->request([](nvml::Requests& requests) { requests.measure = true; });
}

void NvmlThread::sample(std::vector<SampleWish> gpus) {
  if (session_) session_->request([gpus = std::move(gpus)](nvml::Requests& requests) { requests.sample = gpus; });
}

void NvmlThread::set_compute_mode(std::string gpu_uuid, ComputeMode mode, std::function<void(Status)> done) {
  if (!session_) return done(fail(Kind::kUnavailable, "the driver library is not open"));
  session_->request([gpu_uuid = std::move(gpu_uuid), mode, done = std::move(done)](nvml::Requests& requests) {
    requests.modes.push_back({gpu_uuid, mode, done});
  });
}

// A hung call raises no event, so the loop checks for it.
void NvmlThread::listen() {
  timer_.start(silence_ / 2, [this] {
    listen();
    const Duration at_work = session_->at_work(loop_.now());
    const bool silent = at_work >= silence_;
    if (silent == silent_) return;
    silent_ = silent;
    if (!callbacks_.on_event) return;
    if (!silent) return callbacks_.on_event({.what = GpuEvent::What::kAnswering});
    callbacks_.on_event({.what = GpuEvent::What::kSilent,
                         .why = "a call into the driver has not returned for " +
                                std::to_string(milliseconds_of(at_work)) + " ms; see dmesg for Xid or GSP messages"});
  });
}

}  // namespace tranche::gpu
