#pragma once
// kubelet as a device plugin sees it (device plugin API v1beta1 and PodResources v1), on real unix sockets: the
// peer of the product in contract tests and simulated nodes. It follows kubelet's device manager:
//   - start deletes every socket in the plugin directory, then listens on kubelet.sock;
//   - Register is re-entrant: kubelet dials the endpoint and calls GetDevicePluginOptions before it answers;
//   - when ListAndWatch ends, for any reason, all devices of that resource are unhealthy and the endpoint is
//     stopped; kubelet never reopens the stream by itself;
//   - Allocate carries exactly one container request; its answer is kept and replayed for every later start of that
//     container, also after a restart of kubelet.
// It neither schedules nor runs processes: `admit` is called once a pod is bound to this node, `start_container` each
// time one of its containers starts. The program sim-kubelet adds scheduling and real processes.
//
// Threads: every method may be called from any thread, except from within a callback or predicate. Calls to the plugin
// block their caller and, as in kubelet, Allocate and GetPreferredAllocation have no deadline; stop() ends them.
// Durations given as `within` are measured from the call. No test needs to sleep: every change wakes the waiters.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tranche::sim {

struct KubeletSettings {
  std::string plugin_dir{};            // must exist, or its parent; keep it short (sun_path holds 107 characters)
  std::string pod_resources_socket{};  // "" = no PodResources server
  Duration dial_deadline = std::chrono::seconds(10);  // Register gives up dialling the endpoint after this
  std::string authority = "localhost";  // the :authority sent to plugins; "path" = the socket path, as old kubelets
  // kubernetes/kubernetes#121994, #127803: the end of an old stream disconnects the present endpoint of the resource.
  bool old_stream_end_disconnects_current = false;
};

struct PluginOptions {
  bool pre_start_required = false;
  bool preferred_allocation = false;
  friend bool operator==(const PluginOptions&, const PluginOptions&) = default;
};

// A Register call that kubelet answered with OK.
struct Registration {
  std::uint64_t number = 0;  // counts successful registrations of every resource, from 1, never reset
  std::string resource{};
  std::string endpoint{};  // file name
  std::string version{};
  PluginOptions in_request;  // kubelet does not use these …
  PluginOptions answered;    // … but these, from GetDevicePluginOptions
};

struct Device {
  std::string id{};
  bool healthy = false;
  std::vector<std::int64_t> numa_nodes{};
  friend bool operator==(const Device&, const Device&) = default;
};

// kubelet's present state of one resource.
struct ResourceView {
  std::string resource{};
  std::string endpoint{};
  bool registered = false;               // has an endpoint, perhaps stopped
  bool watching = false;                 // its ListAndWatch stream is open
  std::vector<Device> devices{};         // sorted by id; all unhealthy once the stream has ended
  std::uint64_t capacity = 0;            // healthy and unhealthy
  std::uint64_t allocatable = 0;         // healthy
  std::vector<std::string> allocated{};  // sorted; held by admitted pods, healthy or not

  std::uint64_t healthy() const { return allocatable; }
};

// One message of one ListAndWatch stream, as received: wire order, nothing merged.
struct StreamMessage {
  std::string resource{};
  std::string endpoint{};
  std::uint64_t stream = 0;  // counts opened streams, from 1; messages of one stream have the same number
  std::vector<Device> devices{};
};

// One call between plugin and kubelet after it ended, in that order.
struct Call {
  enum class Method { kRegister, kGetOptions, kListAndWatch, kPreferred, kAllocate };
  Method method = Method::kRegister;
  std::string resource{};
  std::string endpoint{};
  std::vector<std::string> ids{};        // requested: Allocate; available ids: Preferred
  int size = 0;                          // Preferred
  std::vector<std::string> preferred{};  // the plugin's response to Preferred, as received
  int status = 0;                        // gRPC code, 0 = OK
  std::string message{};
};

// The start parameters of a container, besides those of its pod.
struct ContainerGrant {
  struct Mount {
    std::string container_path{};
    std::string host_path{};
    bool read_only = false;
    friend bool operator==(const Mount&, const Mount&) = default;
  };
  struct DeviceNode {
    std::string container_path{};
    std::string host_path{};
    std::string permissions{};
    friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
  };
  std::string container{};
  std::map<std::string, std::vector<std::string>> slots{};  // resource → ids, sorted
  std::map<std::string, std::string> envs{};
  std::vector<Mount> mounts{};
  std::vector<DeviceNode> devices{};
  std::map<std::string, std::string> annotations{};
  std::vector<std::string> cdi_devices{};
  friend bool operator==(const ContainerGrant&, const ContainerGrant&) = default;
};

struct ContainerAsk {
  std::string name{};
  std::map<std::string, std::uint64_t> resources{};  // extended resources and how many of each
  bool running = false;  // the runtime reports it as running: after a restart kubelet then checks nothing
};

struct PodAsk {
  std::string uid{};  // "" = namespace/name
  std::string pod_namespace = "default";
  std::string name{};
  std::vector<ContainerAsk> containers{};
};

// A pod that requests `count` of `resource` in one container "main": enough for most tests.
PodAsk one_container_pod(std::string name, std::string resource, std::uint64_t count);

struct Admission {
  bool admitted = false;
  std::string reason{};   // "UnexpectedAdmissionError" when refused
  std::string message{};  // the pod's status message; contains the plugin's text
  int status = 0;         // gRPC code of the plugin's refusal, 0 if kubelet itself refuses
  std::vector<ContainerGrant> containers{};
};

class Kubelet {
 public:
  // Removes the plugin directory's sockets and listens.
  static Result<std::unique_ptr<Kubelet>> open(KubeletSettings settings);
  ~Kubelet();  // stops
  Kubelet(const Kubelet&) = delete;
  Kubelet& operator=(const Kubelet&) = delete;

  // --- life -----------------------------------------------------------------------------------------------------
  void stop();       // closes servers, streams and calls under way; what was admitted is remembered
  Status start();    // after stop(): like open
  Status restart();  // both: running pods keep their grants, resources have no devices until plugins register again
  std::string registration_socket() const;  // plugin_dir + "/kubelet.sock"

  // Runs on an unspecified thread after any change, to wake a loop. Set it before anything registers.
  void on_change(std::function<void()> callback);

  // --- waiting --------------------------------------------------------------------------------------------------
  // The first registration of `resource` whose number is greater than `after` (pass the last one's number to wait for
  // the next). Fails with kTimeout, and a text that describes what was seen instead.
  [[nodiscard]] Result<Registration> wait_for_registration(const std::string& resource, Duration within,
                                                           std::uint64_t after = 0);
  // Waits until kubelet's view of `resource` satisfies the predicate.
  [[nodiscard]] Result<ResourceView> wait_for_devices(const std::string& resource,
                                                      std::function<bool(const ResourceView&)> predicate,
                                                      Duration within);
  [[nodiscard]] Result<ResourceView> wait_for_healthy(const std::string& resource, std::uint64_t count,
                                                      Duration within);
  // Waits until a recorded call satisfies the predicate, and returns the first such call.
  [[nodiscard]] Result<Call> wait_for_call(std::function<bool(const Call&)> predicate, Duration within);
  // Waits until a message on any stream, including extra ones, satisfies the predicate, and returns the first.
  [[nodiscard]] Result<StreamMessage> wait_for_message(std::function<bool(const StreamMessage&)> predicate,
                                                       Duration within);

  // --- what is -------------------------------------------------------------------------------------------------
  ResourceView view(const std::string& resource) const;
  std::vector<ResourceView> views() const;          // sorted by resource; forgotten ones are absent
  std::vector<Registration> registrations() const;  // all, in order
  std::vector<Call> calls() const;                  // all, in order of their end
  std::vector<StreamMessage> messages() const;      // all, in order of arrival

  // --- pods ----------------------------------------------------------------------------------------------------
  // Prefers and allocates for every container, in order; refuses the pod as a whole. Admitting an admitted pod again
  // returns the same grants without a call to the plugin, and refuses if its devices are unhealthy or their plugin has
  // not come back. kubelet does not manage a resource that no plugin has ever registered: such a pod is admitted,
  // without devices (the scheduler keeps it away).
  [[nodiscard]] Admission admit(const PodAsk& pod);
  // A start or restart of a container of an admitted pod: the recorded response. Never Allocate.
  [[nodiscard]] Result<ContainerGrant> start_container(const std::string& uid, const std::string& container);
  void remove_pod(const std::string& uid);  // ended: its devices are free

  // --- bad days ------------------------------------------------------------------------------------------------
  void refuse_next_registrations(int count, int grpc_code, std::string message);
  void end_next_streams(int count);  // each at its first message
  void hang_registrations();         // Register does not answer …
  void release_registrations();      // … until this
  // Cancels the current stream of `resource` from kubelet's side, even during a write.
  [[nodiscard]] Status close_stream(const std::string& resource);
  // PodResources lists no pod, as kubelet does after its start until it has read the API server's pods.
  void list_no_pods(bool none);
  // A slow reader: nothing is read from any stream of `resource` until resume.
  void pause_reading(const std::string& resource);
  void resume_reading(const std::string& resource);
  // A stream beside the current one, to the current endpoint, with its own connection. Its messages are recorded
  // (number = the result) and change nothing. authority "" = as in the settings.
  [[nodiscard]] Result<std::uint64_t> open_extra_stream(const std::string& resource, std::string authority = {});
  [[nodiscard]] Status close_extra_stream(std::uint64_t stream);

  struct Impl;  // for this class's own files

 private:
  explicit Kubelet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tranche::sim
