#pragma once
// One resource on its way to being advertised, as one level-triggered question asked again after every event: is our
// socket in place, does kubelet know of it, is a stream open? look() does the step that is missing.
//
//   unbound ──bind──► serving ──Register──► registered ──stream opens, and stays──► watched
//      ▲                 ▲                      │ no stream for a while, or it ended
//      │ socket deleted  └──────────────────────┘ kubelet restarted, refused, absent: back-off
//      └─ taken by a live foreign process: wait until it is gone, register nothing
//
// Loop thread only.
#include <deviceplugin/v1beta1/api.pb.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "base/time.h"
#include "kubelet/loop_signal.h"
#include "kubelet/plugin_host.h"
#include "kubelet/socket_server.h"
#include "os/loop/loop.h"

namespace tranche::kubelet {

struct CallCounts {
  std::atomic<std::uint64_t> allocations = 0;  // containers that received a grant
  std::atomic<std::uint64_t> refused = 0;      // Allocate calls that did not
};

class DevicePluginService;
class RegisterCall;

class Plugin {
 public:
  // on_change: in a turn of the loop or within a call to this object; the state may have changed.
  Plugin(os::Loop& loop, const PluginHostSettings& settings, Answers& answers, std::string resource,
         std::function<void()> on_change);
  ~Plugin();  // withdraws the resource
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  void offer(const plan::Advertised& advertised);
  void look(bool kubelet_is_there);
  void kubelet_started();  // its socket was replaced: it does not know us any more

  const std::string& socket_name() const { return socket_name_; }
  PluginState state() const;

 private:
  bool in_place();  // our socket is where kubelet looks for it; binds when it should be
  bool deserted_for_long();
  void bind();
  void unbind();
  void forget_registration();
  void keep_registered();
  // Before every registration all earlier streams end: an old stream's end disconnects the new client in kubelets
  // before kubernetes/kubernetes#135437.
  bool streams_are_over();
  void watch_the_watchers();
  void start_registering();
  void retry_later(std::string problem);
  void turn();  // after anything happened on gRPC's threads

  os::Loop& loop_;
  const PluginHostSettings& settings_;
  Answers& answers_;
  const std::string resource_;
  const std::string socket_name_;
  const std::string socket_path_;
  const std::function<void()> on_change_;

  Backoff backoff_;
  os::Timer retry_;
  os::Timer unwatched_;
  os::Timer kept_;  // runs while a stream is open and a problem is shown
  os::Timer recheck_;
  std::optional<plan::Advertised> advertised_;
  std::shared_ptr<const v1beta1::ListAndWatchResponse> devices_;
  CallCounts counts_;

  bool kubelet_is_there_ = false;
  bool registered_ = false;
  bool in_place_ = false;
  std::optional<MonoTime> deserted_since_;
  std::optional<MonoTime> streams_end_by_;
  std::uint64_t lost_before_ = 0;  // streams lost before the last registration
  std::uint64_t registrations_ = 0;
  std::string problem_;
  std::string note_;

  LoopSignal signal_;  // this and the next outlive those below, whose threads raise them
  LoopSignal counted_;
  std::unique_ptr<DevicePluginService> service_;
  std::unique_ptr<SocketServer> server_;
  std::unique_ptr<RegisterCall> registering_;
};

}  // namespace tranche::kubelet
