#include "kubelet/plugin.h"

#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "kubelet/streams.h"
#include "kubelet/translate.h"

namespace tranche::kubelet {
namespace {

// A newcomer binds first and listens a moment later; in between its socket refuses like a dead one.
constexpr Duration kBindToListen = std::chrono::milliseconds(200);
// Counts of calls are for people; the loop's work for them must not compete with the next call.
constexpr Duration kCountsWait = std::chrono::milliseconds(50);

std::string by_whom(pid_t pid) {
  return pid == 0 ? "another process, in a process namespace not visible here" : fmt::format("process {}", pid);
}

// "nvidia.com/gpu.shared" → "nvidia-gpu.shared.sock"; the directory is kubelet's, the name NVIDIA's.
std::string socket_name_of(const std::string& resource) {
  return "nvidia-" + resource.substr(resource.rfind('/') + 1) + ".sock";
}

}  // namespace

// kubelet's questions about one resource, answered right on gRPC's threads: no lock of ours is held while Answers
// thinks and the loop is not involved, so kubelet's re-entrant Register cannot wait for itself and a busy loop delays
// no pod. Methods in PascalCase are kubelet calling us.
class DevicePluginService final : public v1beta1::DevicePlugin::CallbackService {
 public:
  // on_streams, on_counts: on gRPC's threads, after streams came or went, after calls were counted. All references must
  // outlive the server.
  DevicePluginService(std::string resource, Answers& answers, CallCounts& counts, std::function<void()> on_streams,
                      std::function<void()> on_counts)
      : resource_(std::move(resource)),
        answers_(answers),
        counts_(counts),
        on_counts_(std::move(on_counts)),
        streams_(std::move(on_streams)) {}

  // Of one resource: what ListAndWatch sends.
  Streams<v1beta1::ListAndWatchResponse>& streams() { return streams_; }

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context, const v1beta1::Empty*,
                                                   v1beta1::DevicePluginOptions* response) override {
    *response = our_options();
    return answer(context, {});
  }

  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(grpc::CallbackServerContext* context,
                                                                        const v1beta1::Empty*) override {
    return streams_.open(*context);
  }

  grpc::ServerUnaryReactor* GetPreferredAllocation(grpc::CallbackServerContext* context,
                                                   const v1beta1::PreferredAllocationRequest* request,
                                                   v1beta1::PreferredAllocationResponse* response) override {
    return answer(context, prefer_all(*request, *response));
  }

  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context, const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* response) override {
    const Status done = allocate_all(*request, *response);
    if (done) {
      counts_.allocations += static_cast<std::uint64_t>(request->container_requests_size());
    } else {
      ++counts_.refused;
    }
    on_counts_();
    return answer(context, done);
  }

  grpc::ServerUnaryReactor* PreStartContainer(grpc::CallbackServerContext* context,
                                              const v1beta1::PreStartContainerRequest*,
                                              v1beta1::PreStartContainerResponse*) override {
    return answer(context, {});
  }

 private:
  static grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const Status& status) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status ? grpc::Status::OK : to_status(status.error()));
    return reactor;
  }

  template <class As, class Repeated>
  static std::vector<As> all_of(const Repeated& repeated) {
    return {repeated.begin(), repeated.end()};
  }

  // kubelet asks for one container at a time. An error for several containers names the index (they have no names
  // here).
  static Error in_container(Error error, int index, int count) {
    return count == 1 ? std::move(error)
                      : within(std::move(error), fmt::format("container {} of {}", index + 1, count));
  }

  Status prefer_all(const v1beta1::PreferredAllocationRequest& request,
                    v1beta1::PreferredAllocationResponse& response) {
    const int count = request.container_requests_size();
    for (int i = 0; i < count; ++i) {
      const v1beta1::ContainerPreferredAllocationRequest& ask = request.container_requests(i);
      if (ask.allocation_size() < 0) {
        return fail(Kind::kInvalid, "a preferred allocation cannot have a negative size", resource_);
      }
      auto ids = answers_.prefer(resource_, all_of<std::string_view>(ask.available_deviceids()),
                                 all_of<std::string_view>(ask.must_include_deviceids()),
                                 static_cast<std::uint32_t>(ask.allocation_size()));
      if (!ids) return std::unexpected(in_container(std::move(ids).error(), i, count));
      v1beta1::ContainerPreferredAllocationResponse& container = *response.add_container_responses();
      for (std::string& id : *ids) container.add_deviceids(std::move(id));
    }
    return {};
  }

  Status allocate_all(const v1beta1::AllocateRequest& request, v1beta1::AllocateResponse& response) {
    const int count = request.container_requests_size();
    for (int i = 0; i < count; ++i) {
      const auto grant = answers_.allocate(resource_, all_of<std::string>(request.container_requests(i).devices_ids()));
      if (!grant) return std::unexpected(in_container(grant.error(), i, count));
      write_grant(*grant, *response.add_container_responses());
    }
    return {};
  }

  const std::string resource_;
  Answers& answers_;
  CallCounts& counts_;
  const std::function<void()> on_counts_;
  Streams<v1beta1::ListAndWatchResponse> streams_;
};

// One asynchronous Register call to kubelet. Never made from a thread that has to answer kubelet: before Register
// returns, kubelet dials our endpoint and asks GetDevicePluginOptions (docs/internals/kubelet-contract.md).
class RegisterCall {
 public:
  // on_done: on a gRPC thread, once, after which outcome() has a value.
  RegisterCall(const std::string& kubelet_socket, const std::string& resource, const std::string& endpoint,
               Duration deadline, std::function<void()> on_done)
      : socket_(kubelet_socket),
        on_done_(std::move(on_done)),
        stub_(v1beta1::Registration::NewStub(local_channel(kubelet_socket))) {
    request_.set_version("v1beta1");
    request_.set_endpoint(endpoint);
    request_.set_resource_name(resource);
    *request_.mutable_options() = our_options();
    context_.set_deadline(grpc_span(deadline));
    stub_->async()->Register(&context_, &request_, &response_, [this](const grpc::Status& status) { finish(status); });
  }
  // Cancels, and waits the moment until on_done has returned.
  ~RegisterCall() {
    context_.TryCancel();
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [this] { return over_; });
  }
  RegisterCall(const RegisterCall&) = delete;
  RegisterCall& operator=(const RegisterCall&) = delete;

  // Nothing while under way; any thread.
  std::optional<Status> outcome() const {
    const std::lock_guard lock(mutex_);
    return outcome_;
  }

 private:
  Status judge(const grpc::Status& status) const {
    if (status.ok()) return {};
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        return std::unexpected(from_status(status, "kubelet does not answer", socket_));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return std::unexpected(
            from_status(status, "kubelet received the registration and did not answer in time", socket_));
      default:
        return std::unexpected(
            from_status(status, fmt::format("kubelet refused to register {}", request_.resource_name()), socket_));
    }
  }

  void finish(const grpc::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      outcome_ = judge(status);
    }
    on_done_();
    // Under the lock: the destructor may free everything as soon as it sees `over_`.
    const std::lock_guard lock(mutex_);
    over_ = true;
    returned_.notify_all();
  }

  const std::string socket_;
  const std::function<void()> on_done_;
  const std::unique_ptr<v1beta1::Registration::Stub> stub_;
  grpc::ClientContext context_;
  v1beta1::RegisterRequest request_;
  v1beta1::Empty response_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::optional<Status> outcome_;
  bool over_ = false;
};

Plugin::Plugin(os::Loop& loop, const PluginHostSettings& settings, Answers& answers, std::string resource,
               std::function<void()> on_change)
    : loop_(loop),
      settings_(settings),
      answers_(answers),
      resource_(std::move(resource)),
      socket_name_(socket_name_of(resource_)),
      socket_path_(settings.plugin_dir + "/" + socket_name_),
      on_change_(std::move(on_change)),
      backoff_(settings.retry_first, settings.retry_most, settings.seed ^ stable_hash(resource_)),
      retry_(loop),
      unwatched_(loop),
      kept_(loop),
      recheck_(loop),
      signal_(loop, [this] { turn(); }),
      counted_(loop, on_change_, kCountsWait) {}

Plugin::~Plugin() {
  registering_.reset();
  unbind();
}

void Plugin::offer(const plan::Advertised& advertised) {
  const bool same = advertised_ == advertised;
  advertised_ = advertised;  // also when it is the same: then its slots are those of the snapshot
  if (same) return;
  devices_ = std::make_shared<const v1beta1::ListAndWatchResponse>(to_message(advertised));
  if (service_) service_->streams().offer(devices_);
}

void Plugin::look(bool kubelet_is_there) {
  kubelet_is_there_ = kubelet_is_there;
  in_place_ = in_place();
  if (in_place_ && settings_.register_with_kubelet) keep_registered();
  on_change_();
}

void Plugin::kubelet_started() {
  forget_registration();
  retry_.stop();
  backoff_.reset();
  problem_.clear();  // one that is not kubelet's is found again
}

void Plugin::forget_registration() {
  registering_.reset();
  registered_ = false;
  unwatched_.stop();
  kept_.stop();
}

bool Plugin::in_place() {
  if (!server_) {
    if (!retry_.running()) bind();
    return server_ != nullptr;
  }
  const SocketServer::Finding finding = server_->look();
  if (finding.place != SocketServer::Place::kDeserted) deserted_since_.reset();
  switch (finding.place) {
    case SocketServer::Place::kOurs:
      return true;
    case SocketServer::Place::kTaken:
      // kubelet reads every stream it has, also that of a plugin since replaced: ours would contradict the newcomer's.
      service_->streams().finish_all();
      forget_registration();
      retry_.stop();
      problem_ = fmt::format("{} serves {} now, at {}; this one stands back until it is gone",
                             by_whom(finding.foreign_process), resource_, socket_path_);
      return false;
    case SocketServer::Place::kDeserted:
      if (!deserted_for_long()) return false;
      break;
    case SocketServer::Place::kDeleted:
      break;
  }
  bind();
  return server_ != nullptr;
}

bool Plugin::deserted_for_long() {
  if (!deserted_since_) deserted_since_ = loop_.now();
  if (loop_.now() - *deserted_since_ >= kBindToListen) return true;
  recheck_.start(kBindToListen, [this] { look(kubelet_is_there_); });
  return false;
}

void Plugin::bind() {
  forget_registration();
  unbind();
  deserted_since_.reset();
  auto service = std::make_unique<DevicePluginService>(
      resource_, answers_, counts_, [this] { signal_.raise(); }, [this] { counted_.raise(); });
  // The first list is there before the first stream can be.
  if (devices_) service->streams().offer(devices_);
  auto opened =
      SocketServer::open({service.get()}, settings_.plugin_dir, socket_name_, loop_.now(), settings_.stop_within);
  if (!opened) {
    retry_later(to_string(within(opened.error(), fmt::format("cannot serve {}", resource_))));
    return;
  }
  service_ = std::move(service);
  server_ = std::move(*opened);
  retry_.stop();
  backoff_.reset();
  problem_.clear();
  const Listener& predecessor = server_->predecessor();
  note_ = predecessor.alive ? fmt::format("took {} over from {}", socket_path_, by_whom(predecessor.pid)) : "";
  if (predecessor.alive) retry_.start(settings_.handover, [this] { look(kubelet_is_there_); });
}

void Plugin::unbind() {
  if (service_) service_->streams().close();  // an open one would keep the server waiting until its deadline
  server_.reset();
  service_.reset();
}

void Plugin::keep_registered() {
  if (!kubelet_is_there_) {
    forget_registration();
    problem_ = fmt::format("kubelet is not there: no socket at {}; {} registers as soon as it appears",
                           settings_.kubelet_socket, resource_);
    return;
  }
  if (registering_) return;
  if (registered_) {
    watch_the_watchers();
    return;
  }
  if (retry_.running()) return;
  if (streams_are_over()) start_registering();
}

bool Plugin::streams_are_over() {
  auto& streams = service_->streams();
  streams.finish_all();
  const bool over = streams.count().ending == 0;
  if (!over && !streams_end_by_) streams_end_by_ = loop_.now() + settings_.stop_within;
  // Their end raises the signal; a connection that accepts no bytes any more must not block indefinitely.
  if (!over && loop_.now() < *streams_end_by_) {
    recheck_.start(*streams_end_by_ - loop_.now(), [this] { look(kubelet_is_there_); });
    return false;
  }
  streams_end_by_.reset();
  return true;
}

void Plugin::watch_the_watchers() {
  const auto count = service_->streams().count();
  const bool lost = count.lost != lost_before_;
  // Of several streams (an older instance's registration reaches our path too) kubelet believes only one, and which one
  // is not known here: the loss of any counts as the loss of that one.
  if (count.open > 0 && !lost) {
    unwatched_.stop();
    // kubelet opens a stream also to end it at its first message, so only one that stays ends a problem.
    if (problem_.empty() || kept_.running()) return;
    kept_.start(settings_.kept_after, [this] {
      backoff_.reset();
      problem_.clear();
      on_change_();
    });
    return;
  }
  kept_.stop();
  if (unwatched_.running()) return;
  // kubelet opens one stream per registration and never a second (kubernetes/kubernetes#92958).
  unwatched_.start(lost ? settings_.lost_grace : settings_.unwatched_grace, [this] {
    registered_ = false;
    const bool ended = service_->streams().count().lost != lost_before_;
    retry_later(fmt::format(
        "kubelet accepted {} and {}; registering it again", resource_,
        ended ? fmt::format("ended its stream (the list has {} slots in {} bytes, and kubelet receives at most {})",
                            devices_->devices_size(), devices_->ByteSizeLong(), plan::kLargestList)
              : "does not watch it"));
    on_change_();
  });
}

void Plugin::start_registering() {
  lost_before_ = service_->streams().count().lost;
  registering_ = std::make_unique<RegisterCall>(settings_.kubelet_socket, resource_, socket_name_,
                                                settings_.registration_deadline, [this] { signal_.raise(); });
}

void Plugin::retry_later(std::string problem) {
  problem_ = std::move(problem);
  retry_.start(backoff_.next(), [this] { look(kubelet_is_there_); });
}

void Plugin::turn() {
  if (const std::optional<Status> outcome = registering_ ? registering_->outcome() : std::nullopt) {
    registering_.reset();
    registered_ = outcome->has_value();
    if (registered_) {
      ++registrations_;  // a problem is shown until a stream stays
    } else {
      retry_later(to_string(outcome->error()));
    }
  }
  look(kubelet_is_there_);
}

PluginState Plugin::state() const {
  return {.resource = resource_,
          .endpoint = socket_name_,
          .serving = in_place_,
          .registered = registered_ && problem_.empty(),
          .watchers = service_ ? service_->streams().count().open : 0,
          .problem = problem_,
          .note = note_,
          .registrations = registrations_,
          .allocations = counts_.allocations,
          .refused = counts_.refused};
}

}  // namespace tranche::kubelet
