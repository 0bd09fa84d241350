#include "gpu/driver/channel.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "os/clock/clock.h"

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

std::optional<Duration> Channel::at_work(MonoTime now) const {
  const std::lock_guard lock(mutex_);
  if (!working_since_) return std::nullopt;
  return now - *working_since_;
}

void Channel::rests() {
  const std::lock_guard lock(mutex_);
  working_since_.reset();
}

void Channel::works() {
  const MonoTime now = os::mono_now();
  const std::lock_guard lock(mutex_);
  working_since_ = now;
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
    {
      const std::lock_guard closed(self->mutex_);
      if (self->loop_ == nullptr) return;
    }
    turn(self->callbacks_);  // runs on the loop's thread, the only one that closes the channel
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
