#pragma once
// The open ListAndWatch streams of one resource. Each holds at most one message in flight and one newest to send next,
// so that a slow reader gets the newest state and not a backlog; every stream sees every state (one queue with several
// readers, as in other plugins, would give each update to whoever reads first).
//
// Threads: any. on_count is called on gRPC's threads, after the counts changed. Must outlive the server that calls
// open.
#include <deviceplugin/v1beta1/api.pb.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

namespace tranche::host {

using DeviceList = std::shared_ptr<const v1beta1::ListAndWatchResponse>;

class WatchStreams {
 public:
  explicit WatchStreams(std::function<void()> on_count) : on_count_(std::move(on_count)) {}
  WatchStreams(const WatchStreams&) = delete;
  WatchStreams& operator=(const WatchStreams&) = delete;

  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* open(grpc::CallbackServerContext& context);
  void offer(DeviceList newest);  // from one thread at a time
  void finish_all();              // those open now; later ones are welcome
  void close();                   // finish_all, and every later one is refused

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
  std::set<std::shared_ptr<Stream>> streams_;
  DeviceList newest_;
  std::uint64_t lost_ = 0;
  bool closed_ = false;
};

}  // namespace tranche::host
