#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "gpu/driver/session.h"
#include "os/log/log.h"

namespace tranche::gpu::nvml {

Channel::Channel(os::Loop& loop, NvmlThread::Callbacks callbacks, os::Fd wake)
    : loop_(&loop), callbacks_(std::move(callbacks)), wake_(std::move(wake)) {}

void Channel::request(const std::function<void(Requests&)>& change) {
  {
    const std::lock_guard lock(mutex_);
    change(requests_);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      ::write(wake_.get(), &one, sizeof(one));  // counter full: the thread is already awake
}

bool Channel::close(Duration patience) {
  request([](Requests& requests) { requests.stop = true; });
  std::unique_lock lock(mutex_);
  const bool ended = ended_.wait_for(lock, patience, [this] { return finished_; });
  loop_ = nullptr;
  return ended;
}

Requests Channel::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = ::read(wake_.get(), &count, sizeof(count));
  const std::lock_guard lock(mutex_);
  Requests taken = std::exchange(requests_, {});
  requests_.stop = taken.stop;  // a stop request is never cleared
  return taken;
}

bool Channel::stopping() const {
  const std::lock_guard lock(mutex_);
  return requests_.stop;
}

void Channel::post(std::function<void(const NvmlThread::Callbacks&)> turn) {
  const std::lock_guard lock(mutex_);
  if (loop_ == nullptr) return;
  loop_->post([self = shared_from_this(), turn = std::move(turn)] {
    // Without the lock: this is the loop's thread, the only one that closes the channel.
    if (self->loop_ != nullptr) turn(self->callbacks_);
  });
}

void Channel::report_mode(ModeRequest request, Status status) {
  post([request = std::move(request), status = std::move(status)](const NvmlThread::Callbacks&) {
    if (request.done) request.done(status);
  });
}

void Channel::finished() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  ended_.notify_all();
}

}  // namespace tranche::gpu::nvml

namespace tranche::gpu {

NvmlThread::NvmlThread(os::Loop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}

void NvmlThread::start(const NvmlSettings& settings) {
  stop();
  patience_ = settings.patience;
  silence_ = settings.silence;
  channel_ = std::make_shared<nvml::Channel>(loop_, callbacks_, os::Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)));
  silent_ = false;
  listen();
  thread_ = os::Worker::start();
  thread_->run([channel = channel_, settings] {
    ::pthread_setname_np(::pthread_self(), "nvml");
    nvml::Session(channel, settings).run();
    channel->finished();
  });
}

void NvmlThread::stop() {
  timer_.stop();
  const auto channel = std::exchange(channel_, nullptr);
  if (!channel) return;
  if (!channel->close(patience_)) {
    log::warning("nvml.stuck",
                 {{"what", "a call into the NVIDIA driver has not returned; its thread is left behind"},
                  {"waited_ms", std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count()}});
    thread_->leave_behind();  // it owns everything that it may still use (Channel, Session)
  }
  thread_.reset();
}

void NvmlThread::rescan() {
  if (channel_) channel_->request([](nvml::Requests& requests) { requests.rescan = true; });
}

void NvmlThread::ask_use() {
  if (channel_) channel_->request([](nvml::Requests& requests) { requests.use = true; });
}

void NvmlThread::measure() {
  if (channel_) channel_->request([](nvml::Requests& requests) { requests.measure = true; });
}

void NvmlThread::sample(std::vector<SampleWish> gpus) {
  if (channel_) channel_->request([&](nvml::Requests& requests) { requests.sample = std::move(gpus); });
}

void NvmlThread::set_compute_mode(std::string gpu_uuid, ComputeMode mode, std::function<void(Status)> done) {
  if (!channel_) return done(fail(Kind::kUnavailable, "the driver library is not open"));
  channel_->request(
      [&](nvml::Requests& requests) { requests.modes.push_back({std::move(gpu_uuid), mode, std::move(done)}); });
}

// A hung call raises no event, so the loop checks for it.
void NvmlThread::listen() {
  timer_.start(silence_ / 2, [this] {
    listen();
    const Duration at_work = channel_->at_work(loop_.now());
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
