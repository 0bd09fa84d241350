#include <pthread.h>

#include <utility>

#include "gpu/driver/session.h"
#include "os/log/log.h"

namespace tranche::gpu::nvml {
namespace {

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
    log::warning("nvml.stuck",
                 {{"what", "a call into the NVIDIA driver has not returned; its thread is left behind"},
                  {"waited_ms", std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count()}});
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
                                std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(at_work).count()) +
                                " ms; see dmesg for Xid or GSP messages"});
  });
}

}  // namespace tranche::gpu
