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

namespace tranche::kubelet {

template <class Message>
class Streams {
 public:
  using Newest = std::shared_ptr<const Message>;

  explicit Streams(std::function<void()> on_count) : on_count_(std::move(on_count)) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  grpc::ServerWriteReactor<Message>* open(grpc::CallbackServerContext& context) {
    auto* stream = new Stream(*this, context);  // deletes itself
    {
      const std::lock_guard lock(mutex_);
      streams_.insert(stream);
      closed_ ? stream->end() : stream->write_newest();
    }
    on_count_();
    return stream;
  }

  void offer(Newest newest) {
    const std::lock_guard lock(mutex_);
    newest_ = std::move(newest);
    for (Stream* stream : streams_) stream->write_newest();
  }

  // Those open now; later ones are welcome.
  void finish_all() {
    const std::lock_guard lock(mutex_);
    for (Stream* stream : streams_) stream->end();
  }

  // finish_all, and every later one is refused, until they are accepted again.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    finish_all();
  }
  void accept() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
  }

  struct Count {
    int open = 0;            // a reader is there
    int ending = 0;          // finished, not yet gone
    std::uint64_t lost = 0;  // ended by their readers, since the beginning
  };
  Count count() const {
    const std::lock_guard lock(mutex_);
    Count count{.lost = lost_};
    for (const Stream* stream : streams_) ++(stream->ending() ? count.ending : count.open);
    return count;
  }

 private:
  // Under the lock of all, which gRPC's calls may be made under: it never reacts inside them. Finish is called by who
  // finds no message in flight and sets ending_ first; with a message in flight by OnWriteDone. So it happens once, and
  // never beside a write.
  class Stream final : public grpc::ServerWriteReactor<Message> {
   public:
    Stream(Streams& all, grpc::CallbackServerContext& context) : all_(all), context_(context) {}

    void write_newest() {
      if (ending_ || writing_ || sent_ == all_.newest_) return;
      writing_ = true;
      sent_ = all_.newest_;
      this->StartWrite(sent_.get());
    }

    void end() {
      if (std::exchange(ending_, true)) return;
      by_us_ = true;
      // A slow reader, or one that hangs: Finish would queue behind the message and might never leave.
      writing_ ? context_.TryCancel() : this->Finish(grpc::Status::OK);
    }

    bool ending() const { return ending_; }

    void OnWriteDone(bool ok) override {
      const std::lock_guard lock(all_.mutex_);
      writing_ = false;
      ending_ = ending_ || !ok;
      ending_ ? this->Finish(grpc::Status::CANCELLED) : write_newest();
    }

    void OnCancel() override {
      const std::lock_guard lock(all_.mutex_);
      if (!std::exchange(ending_, true) && !writing_) this->Finish(grpc::Status::CANCELLED);
    }

    void OnDone() override {
      const std::unique_ptr<Stream> self(this);
      {
        const std::lock_guard lock(all_.mutex_);
        all_.streams_.erase(this);
        if (!by_us_) ++all_.lost_;
      }
      all_.on_count_();
    }

   private:
    Streams& all_;
    grpc::CallbackServerContext& context_;
    Newest sent_;  // kept while it is in flight
    bool writing_ = false;
    bool ending_ = false;
    bool by_us_ = false;
  };

  const std::function<void()> on_count_;
  mutable std::mutex mutex_;
  std::set<Stream*> streams_;  // each until its OnDone
  Newest newest_;
  std::uint64_t lost_ = 0;
  bool closed_ = false;
};

}  // namespace tranche::kubelet
