#pragma once
// Our side of kubelet's device-plugin contract (v1beta1), for any number of resources: one gRPC server on one unix
// socket per resource, registration, re-registration when kubelet restarts or stops watching, and a clean stop. gRPC
// lives in this folder only. docs/internals/kubelet-contract.md lists each fact relied on, `./dev promises kubelet` its
// tests.
//
// Threads: constructed, published to and destroyed on the loop thread. `Answers` is called on gRPC's threads, at any
// time, concurrently: it must be a pure function of an immutable snapshot plus at most bounded file work.
//
// Two instances on one node: the newest one to bind is the one that kubelet reaches (that is how a rolling update
// goes), and the older one sees it, says so in `problem`, and neither fights back nor registers until the newcomer is
// gone.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "kubelet/loop_signal.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/socket/unix_socket.h"
#include "plan/plan.h"

namespace tranche::kubelet {

class Answers {
 public:
  virtual ~Answers() = default;
  virtual Result<grants::Grant> allocate(const std::string& resource, std::span<const std::string> ids) = 0;
  virtual Result<std::vector<std::string>> prefer(const std::string& resource,
                                                  std::span<const std::string_view> available,
                                                  std::span<const std::string_view> must_include,
                                                  std::uint32_t size) = 0;
};

struct PluginHostSettings {
  std::string plugin_dir = "/var/lib/kubelet/device-plugins";  // our sockets go here
  std::string kubelet_socket;                                  // "" = plugin_dir + "/kubelet.sock"
  bool register_with_kubelet = true;                           // --kubelet-socket "" of NVIDIA's plugin
  Duration registration_deadline = std::chrono::seconds(10);
  Duration unwatched_grace = std::chrono::seconds(2);    // registered, and no stream opened: register again after
  Duration lost_grace = std::chrono::milliseconds(500);  // a stream was there and is lost: register again after
  Duration kept_after = std::chrono::seconds(2);         // after a problem: a stream open for so long is a recovery
  // Our socket took the place of a live one: what that instance needs to see it and to end its streams. Its streams
  // have to end before we register, or kubelets that follow kubernetes/kubernetes#121994 (1.36 among them, as seen)
  // take the end of its stream for the end of ours.
  Duration handover = std::chrono::milliseconds(100);
  Duration retry_first = std::chrono::milliseconds(250);  // between failed attempts; doubles, with jitter, up to …
  Duration retry_most = std::chrono::seconds(30);
  Duration audit_every = std::chrono::seconds(30);        // look at all sockets even when nothing was heard of them
  Duration stop_within = std::chrono::milliseconds(500);  // for calls under way when a server stops
  std::uint64_t seed = 0;                                 // of the jitter
};

// What `tranche status` and metrics show about one resource.
struct PluginState {
  std::string resource;
  std::string endpoint;  // socket file name
  bool serving = false;
  bool registered = false;  // without a problem: not before a stream stays if the last one ended
  int watchers = 0;         // open ListAndWatch streams
  std::string problem;      // "" or why it is not registered, or not serving: one sentence
  std::string note;         // "" or a line for the log: whose socket was taken over
  std::uint64_t registrations = 0;
  std::uint64_t allocations = 0;
  std::uint64_t refused = 0;
  friend bool operator==(const PluginState&, const PluginState&) = default;
};

class Plugin;

class PluginHost {
 public:
  // on_change: a turn of the loop, after any PluginState changed.
  PluginHost(os::Loop& loop, PluginHostSettings settings, Answers& answers, std::function<void()> on_change);
  ~PluginHost();  // closes it

  Status open();  // watches the directories; an Error: one cannot be watched
  void close();   // finishes streams, stops servers, removes our sockets

  // The newest truth: resources that appeared are served and registered, those that vanished are withdrawn, changed
  // device lists go to every open stream (newest state only, no backlog).
  void publish(const std::vector<plan::Advertised>& resources);
  std::vector<PluginState> states() const;

 private:
  Status watch_directories();
  void look_around();
  void report();

  os::Loop& loop_;
  const PluginHostSettings settings_;
  Answers& answers_;
  const std::function<void()> on_change_;

  std::optional<os::SocketFile> kubelet_;
  bool kubelet_touched_ = false;
  MonoTime kubelet_started_{};
  bool watches_lost_ = false;
  std::vector<PluginState> reported_;

  os::Timer audit_{loop_};
  LoopSignal look_;
  LoopSignal changed_;
  std::unique_ptr<os::DirWatch> plugin_watch_;
  std::unique_ptr<os::DirWatch> kubelet_watch_;
  std::map<std::string, std::unique_ptr<Plugin>> plugins_;  // by resource
};

}  // namespace tranche::kubelet
