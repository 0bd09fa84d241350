#pragma once
// Internals of the kubelet stand-in, shared by its files: life.cpp (start, stop), registration.cpp (Register and the
// streams), admission.cpp (pods), waiting.cpp (the tests' view), pod_resources.cpp.
//
// One mutex guards everything; it is not held during calls to the plugin and callbacks. `admitting` serialises
// admissions, as kubelet's pod loop does, and is locked before `mutex`.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "podresources/v1/api.grpc.pb.h"
#include "standins/kubelet/device_ledger.h"
#include "standins/kubelet/kubelet.h"
#include "standins/kubelet/plugin_client.h"

namespace tranche::sim {

// One ListAndWatch stream and the thread that reads it.
struct Stream {
  std::uint64_t number = 0;
  bool extra = false;  // recorded only
  std::shared_ptr<PluginClient> client;
  grpc::ClientContext context;
  bool cancelled = false;  // by us; guarded by Impl::mutex
  bool ended = false;      // its thread is about to return
  std::jthread thread;
};

// The plugin that serves a resource.
struct Endpoint {
  std::string name;                      // file name; "" if known from before a restart only
  std::shared_ptr<PluginClient> client;  // null then too
  PluginOptions options;
  bool stopped = false;
};

struct Kubelet::Impl {
  explicit Impl(KubeletSettings given) : settings(std::move(given)) {}

  KubeletSettings settings;
  std::mutex admitting;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> callback;

  bool running = false;
  DeviceLedger ledger;
  DeviceLedger remembered;  // of a kubelet that is stopped: the real one has it in its checkpoint
  std::map<std::string, Endpoint> endpoints;
  std::map<std::string, PodAsk> pods;  // admitted, by uid; the API server's and the runtime's knowledge
  std::mt19937_64 dice{1};

  std::vector<Registration> registrations;
  std::vector<Call> calls;
  std::vector<StreamMessage> messages;
  std::uint64_t streams_opened = 0;
  std::vector<std::unique_ptr<Stream>> streams;
  std::set<std::string> paused;
  std::set<std::shared_ptr<PluginClient>> connecting;  // Register in progress

  int refusals = 0;
  grpc::Status refusal;
  int streams_to_end = 0;
  bool hanging = false;
  bool lists_no_pods = false;

  std::unique_ptr<grpc::Service> registration_service;
  std::unique_ptr<grpc::Service> pod_resources_service;
  std::unique_ptr<grpc::Server> registration_server;
  std::unique_ptr<grpc::Server> pod_resources_server;

  // life.cpp
  Status start();
  void stop();
  void notify();  // mutex not held: wakes waiters and the callback

  // registration.cpp
  grpc::Status register_plugin(const v1beta1::RegisterRequest& request);
  grpc::Status register_checked(const v1beta1::RegisterRequest& request, PluginOptions* answered);
  std::uint64_t open_stream(std::shared_ptr<PluginClient> client, bool extra);  // mutex held
  void run_stream(Stream& stream);
  void take_message(Stream& stream, const v1beta1::ListAndWatchResponse& message);
  void end_stream(Stream& stream, const grpc::Status& status);
  void disconnect(const std::string& resource);  // mutex held
  void cancel_stream(Stream& stream);            // mutex held

  // admission.cpp
  struct Refusal {
    std::string message;
    int status = 0;
  };
  using Outcome = std::expected<void, Refusal>;
  Outcome allocate_all(const PodAsk& pod, const ContainerAsk& container);
  Outcome allocate(const PodAsk& pod, const ContainerAsk& container, const std::string& resource,
                   std::uint64_t required);
  std::expected<std::vector<std::string>, Refusal> ask_preference(const Endpoint& endpoint, const std::string& resource,
                                                                  const std::vector<std::string>& available,
                                                                  std::uint64_t needed);
  ContainerGrant grant_of(const std::string& uid, const std::string& container);  // mutex held
  void record(Call call);                                                         // mutex not held

  // waiting.cpp
  ResourceView view_of(const std::string& resource) const;  // mutex held
};

std::unique_ptr<grpc::Service> make_registration_service(Kubelet::Impl& impl);
std::unique_ptr<grpc::Service> make_pod_resources_service(Kubelet::Impl& impl);

}  // namespace tranche::sim
