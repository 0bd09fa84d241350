#pragma once
// State shared by the loop's thread and the driver thread of NvmlThread: requests to the driver thread, results to the
// loop, and the request to stop. Both threads own it (shared_ptr), so that a thread in a driver call that never returns
// can be abandoned: after close() the channel posts nothing to the loop and runs no callback.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/time.h"
#include "gpu/driver/nvml.h"
#include "os/loop/fd.h"

namespace tranche::gpu::nvml {

struct ModeRequest {
  std::string gpu_uuid;
  ComputeMode mode = ComputeMode::kDefault;
  std::function<void(Status)> done;
};

struct Requests {
  bool stop = false;
  bool rescan = false;
  bool use = false;
  bool measure = false;
  std::optional<std::vector<SampleWish>> sample;
  std::deque<ModeRequest> modes;
};

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  Channel(os::Loop& loop, NvmlThread::Callbacks callbacks, os::Fd wake);

  // Loop thread.
  void request(const std::function<void(Requests&)>& change);
  bool close(Duration patience);  // requests the stop and waits for finished(); false: timed out

  // How long the driver thread has been busy without a rest; absent while it rests.
  std::optional<Duration> at_work(MonoTime now) const;

  // Driver thread.
  void rests();  // between rests() and works() only, the thread makes no call into the driver
  void works();
  int wake_fd() const { return wake_.get(); }
  Requests take();  // also clears the wake-up
  bool stopping() const;
  template <class Value>
  void report(std::function<void(const Value&)> NvmlThread::Callbacks::* callback, std::type_identity_t<Value> value) {
    post([callback, value = std::move(value)](const NvmlThread::Callbacks& callbacks) {
      if (callbacks.*callback) (callbacks.*callback)(value);
    });
  }
  void report_mode(ModeRequest request, Status status);
  void finished();

 private:
  void post(std::function<void(const NvmlThread::Callbacks&)> turn);

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  os::Loop* loop_;  // nullptr once closed
  NvmlThread::Callbacks callbacks_;
  os::Fd wake_;
  Requests requests_;
  bool finished_ = false;
  std::optional<MonoTime> working_since_;
};

}  // namespace tranche::gpu::nvml
