#include "host/kubelet/watch_streams.h"

#include <utility>
#include <vector>

namespace tranche::host {

// Who may call Finish: whoever finds, under the lock, no message in flight and sets ending_ first; with a message in
// flight it is OnWriteDone. So Finish happens once, never beside a write, and gRPC's objects are not touched after it.
class WatchStreams::Stream final : public grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse> {
 public:
  Stream(WatchStreams& owner, grpc::CallbackServerContext& context) : owner_(owner), context_(context) {}

  void keep(std::shared_ptr<Stream> self) { self_ = std::move(self); }  // until OnDone

  void offer(DeviceList newest) {
    const v1beta1::ListAndWatchResponse* write = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      next_ = std::move(newest);
      if (in_flight_) return;
      in_flight_ = std::exchange(next_, nullptr);
      write = in_flight_.get();
    }
    StartWrite(write);
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(ending_, true)) return;
      by_us_ = true;
      if (in_flight_) {
        // The reader is slow or hangs: Finish would queue behind the message and might never leave. Under the lock,
        // because the context lives only as long as OnWriteDone has not finished the call.
        context_.TryCancel();
        return;
      }
    }
    Finish(grpc::Status::OK);
  }

  bool ending() const {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  void OnWriteDone(bool ok) override {
    const v1beta1::ListAndWatchResponse* write = nullptr;
    {
      const std::lock_guard lock(mutex_);
      in_flight_ = nullptr;
      if (!ok) ending_ = true;
      if (!ending_) {
        if (!next_) return;
        in_flight_ = std::exchange(next_, nullptr);
        write = in_flight_.get();
      }
    }
    if (write != nullptr) {
      StartWrite(write);
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnCancel() override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(ending_, true) || in_flight_) return;
    }
    Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    const std::shared_ptr<Stream> self = std::move(self_);
    owner_.gone(self, !by_us_);
  }

 private:
  WatchStreams& owner_;
  grpc::CallbackServerContext& context_;
  mutable std::mutex mutex_;
  DeviceList in_flight_;
  DeviceList next_;
  bool ending_ = false;
  bool by_us_ = false;
  std::shared_ptr<Stream> self_;
};

grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* WatchStreams::open(grpc::CallbackServerContext& context) {
  auto stream = std::make_shared<Stream>(*this, context);
  stream->keep(stream);
  DeviceList first;
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    streams_.insert(stream);
    refused = closed_;
    first = newest_;
    // Offered under the lock: a newer list offered meanwhile must come second.
    if (!refused && first) stream->offer(std::move(first));
  }
  if (refused) stream->end();
  on_count_();
  return stream.get();
}

void WatchStreams::offer(DeviceList newest) {
  const std::lock_guard lock(mutex_);
  newest_ = std::move(newest);
  for (const auto& stream : streams_) stream->offer(newest_);
}

void WatchStreams::finish_all() {
  std::vector<std::shared_ptr<Stream>> now;
  {
    const std::lock_guard lock(mutex_);
    now.assign(streams_.begin(), streams_.end());
  }
  for (const auto& stream : now) stream->end();
}

void WatchStreams::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  finish_all();
}

WatchStreams::Count WatchStreams::count() const {
  const std::lock_guard lock(mutex_);
  Count count;
  count.lost = lost_;
  for (const auto& stream : streams_) ++(stream->ending() ? count.ending : count.open);
  return count;
}

void WatchStreams::gone(const std::shared_ptr<Stream>& stream, bool by_reader) {
  {
    const std::lock_guard lock(mutex_);
    if (by_reader) ++lost_;
    streams_.erase(stream);
  }
  on_count_();
}

}  // namespace tranche::host
