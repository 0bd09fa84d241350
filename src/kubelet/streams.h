#pragma once
// The open streams of one call of kubelet's whose every message is the whole state (ListAndWatch of one resource, the
// health of a driver's devices). Each holds at most one message in flight and one newest to send next,
// so that a slow reader gets the newest state and not a backlog; every stream sees every state (one queue with several
// readers, as in other plugins, would give each update to the first reader only).
//
// Threads: any. on_count is called on gRPC's threads, after the counts changed. Must outlive the server that calls
// open.
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace tranche::kubelet {

template <class Message>
class Streams {
 public:
  using Newest = std::shared_ptr<const Message>;

  explicit Streams(std::function<void()> on_count) : on_count_(std::move(on_count)) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  grpc::ServerWriteReactor<Message>* open(grpc::CallbackServerContext& context);
  void offer(Newest newest);  // from one thread at a time
  void finish_all();          // those open now; later ones are welcome
  void close();               // finish_all, and every later one is refused

  struct Count {
    int open = 0;            // a reader is there
    int ending = 0;          // finished, not yet gone
    std::uint64_t lost = 0;  // ended by their readers, since the beginning
  };
  Count count() const;

 private:
  class Stream;
  void gone(const std::shared_ptr<Stream>& stream, bool by_reader);

  const std::function<void()> on_count_;
  mutable std::mutex mutex_;
  std::set<std::shared_ptr<Stream>> streams_;  // each until its OnDone
  Newest newest_;
  std::uint64_t lost_ = 0;
  bool closed_ = false;
};

// Which caller may call Finish: the one that finds, under the lock, no message in flight and sets ending_ first; with a
// message in flight it is OnWriteDone. So Finish happens once, never beside a write, and gRPC's objects are not touched
// after it.
template <class Message>
class Streams<Message>::Stream final : public grpc::ServerWriteReactor<Message>,
                                       public std::enable_shared_from_this<Stream> {
 public:
  Stream(Streams& owner, grpc::CallbackServerContext& context) : owner_(owner), context_(context) {}

  void offer(Newest newest) {
    const Message* write = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      next_ = std::move(newest);
      if (in_flight_) return;
      in_flight_ = std::exchange(next_, nullptr);
      write = in_flight_.get();
    }
    this->StartWrite(write);
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
    this->Finish(grpc::Status::OK);
  }

  bool ending() const {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  void OnWriteDone(bool ok) override {
    const Message* write = nullptr;
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
      this->StartWrite(write);
    } else {
      this->Finish(grpc::Status::CANCELLED);
    }
  }

  void OnCancel() override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(ending_, true) || in_flight_) return;
    }
    this->Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override { owner_.gone(this->shared_from_this(), !by_us_); }

 private:
  Streams& owner_;
  grpc::CallbackServerContext& context_;
  mutable std::mutex mutex_;
  Newest in_flight_;
  Newest next_;
  bool ending_ = false;
  bool by_us_ = false;
};

template <class Message>
grpc::ServerWriteReactor<Message>* Streams<Message>::open(grpc::CallbackServerContext& context) {
  const auto stream = std::make_shared<Stream>(*this, context);
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    streams_.insert(stream);
    refused = closed_;
    // Offered under the lock: a newer list offered meanwhile must come second.
    if (!refused && newest_) stream->offer(newest_);
  }
  if (refused) stream->end();
  on_count_();
  return stream.get();
}

template <class Message>
void Streams<Message>::offer(Newest newest) {
  const std::lock_guard lock(mutex_);
  newest_ = std::move(newest);
  for (const auto& stream : streams_) stream->offer(newest_);
}

template <class Message>
void Streams<Message>::finish_all() {
  std::vector<std::shared_ptr<Stream>> now;
  {
    const std::lock_guard lock(mutex_);
    now.assign(streams_.begin(), streams_.end());
  }
  for (const auto& stream : now) stream->end();
}

template <class Message>
void Streams<Message>::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  finish_all();
}

template <class Message>
typename Streams<Message>::Count Streams<Message>::count() const {
  const std::lock_guard lock(mutex_);
  Count count;
  count.lost = lost_;
  for (const auto& stream : streams_) ++(stream->ending() ? count.ending : count.open);
  return count;
}

template <class Message>
void Streams<Message>::gone(const std::shared_ptr<Stream>& stream, bool by_reader) {
  {
    const std::lock_guard lock(mutex_);
    if (by_reader) ++lost_;
    streams_.erase(stream);
  }
  on_count_();
}

}  // namespace tranche::kubelet
