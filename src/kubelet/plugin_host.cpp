#include "kubelet/plugin_host.h"

#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/time.h"
#include "kubelet/socket_server.h"
#include "kubelet/streams.h"
#include "kubelet/translate.h"
#include "os/files/files.h"

namespace tranche::kubelet {
namespace {

constexpr Duration kOneStart = std::chrono::milliseconds(100);
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

PluginHostSettings complete(PluginHostSettings settings) {
  while (settings.plugin_dir.size() > 1 && settings.plugin_dir.ends_with('/')) settings.plugin_dir.pop_back();
  if (settings.kubelet_socket.empty()) settings.kubelet_socket = settings.plugin_dir + "/kubelet.sock";
  return settings;
}

}  // namespace

// --- the two directions of kubelet's device plugin API for one resource ---------------------------------------------

// kubelet's questions about one resource, answered right on gRPC's threads: no lock of ours is held while Answers
// thinks and the loop is not involved, so kubelet's re-entrant Register cannot wait for itself and a busy loop delays
// no pod. Methods in PascalCase are kubelet calling us.
class DevicePluginService final : public v1beta1::DevicePlugin::CallbackService {
 public:
  // on_streams, on_counts: on gRPC's threads, after streams came or went, after calls were counted. All references must
  // outlive the server.
  DevicePluginService(std::string resource, Answers& answers, std::function<void()> on_streams,
                      std::function<void()> on_counts)
      : resource_(std::move(resource)),
        answers_(answers),
        on_counts_(std::move(on_counts)),
        streams_(std::move(on_streams)) {}

  // Of one resource: what ListAndWatch sends.
  Streams<v1beta1::ListAndWatchResponse>& streams() { return streams_; }
  const Streams<v1beta1::ListAndWatchResponse>& streams() const { return streams_; }
  std::uint64_t allocations() const { return allocations_; }
  std::uint64_t refused() const { return refused_; }

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
      allocations_ += static_cast<std::uint64_t>(request->container_requests_size());
    } else {
      ++refused_;
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
      if (ask.allocation_size() < 0)
        return fail(Kind::kInvalid, "a preferred allocation cannot have a negative size", resource_);
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
  const std::function<void()> on_counts_;
  std::atomic<std::uint64_t> allocations_ = 0;  // containers that received a grant
  std::atomic<std::uint64_t> refused_ = 0;      // Allocate calls that did not
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
    const std::string what = status.error_code() == grpc::StatusCode::UNAVAILABLE ? "kubelet does not answer"
                             : status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED
                                 ? "kubelet received the registration and did not answer in time"
                                 : fmt::format("kubelet refused to register {}", request_.resource_name());
    return std::unexpected(from_status(status, what, socket_));
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

// --- one resource --------------------------------------------------------------------------------------------------

// One resource on its way to being advertised, as one level-triggered question asked again after every event: is our
// socket in place, does kubelet know of it, is a stream open? look() does the step that is missing.
//
//   unbound ──bind──► serving ──Register──► registered ──stream opens, and stays──► watched
//      ▲                 ▲                      │ no stream for a while, or it ended
//      │ socket deleted  └──────────────────────┘ kubelet restarted, refused, absent: back-off
//      └─ taken by a live foreign process: wait until it is gone, register nothing
class Plugin {
 public:
  // on_change: in a turn of the loop or within a call to this object; the state may have changed.
  Plugin(os::Loop& loop, const PluginHostSettings& settings, const std::optional<os::SocketFile>& kubelet,
         Answers& answers, std::string resource, std::function<void()> on_change)
      : loop_(loop),
        settings_(settings),
        kubelet_(kubelet),
        resource_(std::move(resource)),
        socket_name_(socket_name_of(resource_)),
        socket_path_(settings.plugin_dir + "/" + socket_name_),
        on_change_(std::move(on_change)),
        backoff_(settings.retry_first, settings.retry_most, settings.seed ^ stable_hash(resource_)),
        signal_(loop, [this] { turn(); }),
        counted_(loop, on_change_, kCountsWait),
        service_(resource_, answers, [this] { signal_.raise(); }, [this] { counted_.raise(); }) {}
  ~Plugin() {
    registering_.reset();
    unbind();
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  void offer(const plan::Advertised& advertised) {
    const bool same = advertised_ == advertised;
    advertised_ = advertised;  // also when it is the same: then its slots are those of the snapshot
    if (same) return;
    devices_ = std::make_shared<const v1beta1::ListAndWatchResponse>(to_message(advertised));
    service_.streams().offer(devices_);
  }

  void look() {
    in_place_ = in_place();
    if (in_place_ && settings_.register_with_kubelet) keep_registered();
    on_change_();
  }

  // Its socket was replaced: it does not know us any more.
  void kubelet_started() {
    forget_registration();
    retry_.stop();
    backoff_.reset();
    problem_.clear();  // one that is not kubelet's is found again
  }

  PluginState state() const {
    return {.resource = resource_,
            .endpoint = socket_name_,
            .serving = in_place_,
            .registered = registered_ && problem_.empty(),
            .watchers = service_.streams().count().open,
            .problem = problem_,
            .note = note_,
            .registrations = registrations_,
            .allocations = service_.allocations(),
            .refused = service_.refused()};
  }

 private:
  // Our socket is where kubelet looks for it; binds when it should be.
  bool in_place() {
    if (!server_) {
      if (!retry_.running()) bind();
      return server_ != nullptr;
    }
    const SocketServer::Finding finding = server_->look();
    const bool was_deserted = std::exchange(deserted_, finding.place == SocketServer::Place::kDeserted);
    switch (finding.place) {
      case SocketServer::Place::kOurs:
        return true;
      case SocketServer::Place::kTaken:
        // kubelet reads every stream it has, also that of a plugin since replaced: ours would contradict the
        // newcomer's.
        service_.streams().finish_all();
        forget_registration();
        retry_.stop();
        problem_ = fmt::format("{} serves {} now, at {}; this one stands back until it is gone",
                               by_whom(finding.foreign_process), resource_, socket_path_);
        return false;
      case SocketServer::Place::kDeserted:
        if (!was_deserted) recheck_.start(kBindToListen, [this] { look(); });
        if (recheck_.running()) return false;
        break;
      case SocketServer::Place::kDeleted:
        break;
    }
    bind();
    return server_ != nullptr;
  }

  void bind() {
    forget_registration();
    unbind();
    deserted_ = false;
    service_.streams().accept();
    auto opened =
        SocketServer::open({&service_}, settings_.plugin_dir, socket_name_, loop_.now(), settings_.stop_within);
    if (!opened) {
      retry_later(to_string(within(opened.error(), fmt::format("cannot serve {}", resource_))));
      return;
    }
    server_ = std::move(*opened);
    retry_.stop();
    backoff_.reset();
    problem_.clear();
    const os::Listener& predecessor = server_->predecessor();
    note_ = predecessor.alive ? fmt::format("took {} over from {}", socket_path_, by_whom(predecessor.pid)) : "";
    if (predecessor.alive) retry_.start(settings_.handover, [this] { look(); });
  }

  void unbind() {
    service_.streams().close();  // an open one would keep the server waiting until its deadline
    server_.reset();
  }

  void forget_registration() {
    registering_.reset();
    registered_ = false;
    unwatched_.stop();
    kept_.stop();
  }

  void keep_registered() {
    if (!kubelet_) {
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

  // Before every registration all earlier streams end: an old stream's end disconnects the new client in kubelets
  // before kubernetes/kubernetes#135437.
  bool streams_are_over() {
    auto& streams = service_.streams();
    streams.finish_all();
    const bool over = streams.count().ending == 0;
    if (!over && !streams_end_by_) streams_end_by_ = loop_.now() + settings_.stop_within;
    // Their end raises the signal; a connection that accepts no bytes any more must not block indefinitely.
    if (!over && loop_.now() < *streams_end_by_) {
      recheck_.start(*streams_end_by_ - loop_.now(), [this] { look(); });
      return false;
    }
    streams_end_by_.reset();
    return true;
  }

  void watch_the_watchers() {
    const auto count = service_.streams().count();
    const bool lost = count.lost != lost_before_;
    // Of several streams (an older instance's registration reaches our path too) kubelet believes only one, and which
    // one is not known here: the loss of any counts as the loss of that one.
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
      const bool ended = service_.streams().count().lost != lost_before_;
      retry_later(fmt::format(
          "kubelet accepted {} and {}; registering it again", resource_,
          ended ? fmt::format("ended its stream (the list has {} slots in {} bytes, and kubelet receives at most {})",
                              devices_->devices_size(), devices_->ByteSizeLong(), plan::kLargestList)
                : "does not watch it"));
      on_change_();
    });
  }

  void start_registering() {
    lost_before_ = service_.streams().count().lost;
    registering_ = std::make_unique<RegisterCall>(settings_.kubelet_socket, resource_, socket_name_,
                                                  settings_.registration_deadline, [this] { signal_.raise(); });
  }

  void retry_later(std::string problem) {
    problem_ = std::move(problem);
    retry_.start(backoff_.next(), [this] { look(); });
  }

  // After anything happened on gRPC's threads.
  void turn() {
    if (const std::optional<Status> outcome = registering_ ? registering_->outcome() : std::nullopt) {
      registering_.reset();
      registered_ = outcome->has_value();
      if (registered_) {
        ++registrations_;  // a problem is shown until a stream stays
      } else {
        retry_later(to_string(outcome->error()));
      }
    }
    look();
  }

  os::Loop& loop_;
  const PluginHostSettings& settings_;
  const std::optional<os::SocketFile>& kubelet_;  // its socket
  const std::string resource_;
  const std::string socket_name_;
  const std::string socket_path_;
  const std::function<void()> on_change_;

  Backoff backoff_;
  os::Timer retry_{loop_};
  os::Timer unwatched_{loop_};
  os::Timer kept_{loop_};  // runs while a stream is open and a problem is shown
  os::Timer recheck_{loop_};
  std::optional<plan::Advertised> advertised_;
  std::shared_ptr<const v1beta1::ListAndWatchResponse> devices_;

  bool registered_ = false;
  bool in_place_ = false;
  bool deserted_ = false;  // by the last look
  std::optional<MonoTime> streams_end_by_;
  std::uint64_t lost_before_ = 0;  // streams lost before the last registration
  std::uint64_t registrations_ = 0;
  std::string problem_;
  std::string note_;

  LoopSignal signal_;  // this and the next outlive those below, whose threads raise them
  LoopSignal counted_;
  DevicePluginService service_;
  std::unique_ptr<SocketServer> server_;
  std::unique_ptr<RegisterCall> registering_;
};

PluginHost::PluginHost(os::Loop& loop, PluginHostSettings settings, Answers& answers, std::function<void()> on_change)
    : loop_(loop),
      settings_(complete(std::move(settings))),
      answers_(answers),
      on_change_(std::move(on_change)),
      look_(loop, [this] { look_around(); }),
      changed_(loop, [this] { report(); }) {}

PluginHost::~PluginHost() = default;

Status PluginHost::open() {
  TRY_STATUS(watch_directories());
  look_around();
  return {};
}

void PluginHost::close() {
  audit_.stop();
  plugin_watch_.reset();
  kubelet_watch_.reset();
  plugins_.clear();
}

void PluginHost::publish(const std::vector<plan::Advertised>& resources) {
  std::map<std::string, const plan::Advertised*> wanted;
  for (const plan::Advertised& resource : resources) wanted[resource.resource] = &resource;
  std::erase_if(plugins_, [&](const auto& plugin) { return !wanted.contains(plugin.first); });
  for (const auto& [name, advertised] : wanted) {
    std::unique_ptr<Plugin>& plugin = plugins_[name];
    const bool is_new = plugin == nullptr;
    if (is_new) {
      plugin = std::make_unique<Plugin>(loop_, settings_, kubelet_, answers_, name, [this] { changed_.raise(); });
    }
    plugin->offer(*advertised);
    if (is_new) plugin->look();
  }
  changed_.raise();
}

std::vector<PluginState> PluginHost::states() const {
  std::vector<PluginState> states;
  for (const auto& [name, plugin] : plugins_) states.push_back(plugin->state());
  return states;
}

Status PluginHost::watch_directories() {
  const auto [directory, kubelets_name] = os::parts_of(settings_.kubelet_socket);
  // Only notes what to look at: kubelet's start is a burst of events, looked at once when it is over.
  const auto heard = [this, kubelets_name](const std::string& name) {
    watches_lost_ = watches_lost_ || name.empty();
    kubelet_touched_ = kubelet_touched_ || name == kubelets_name;
    look_.raise();
  };
  TRY(plugin_watch_, os::DirWatch::open(loop_, settings_.plugin_dir, heard));
  if (directory == settings_.plugin_dir || !settings_.register_with_kubelet) return {};
  TRY(kubelet_watch_, os::DirWatch::open(loop_, directory, heard));
  return {};
}

void PluginHost::look_around() {
  // The audit tries again when they cannot be opened, and looks at every socket meanwhile.
  if (watches_lost_) watches_lost_ = !watch_directories();
  const std::optional<os::SocketFile> before = std::exchange(kubelet_, os::look_at_socket(settings_.kubelet_socket));
  // An event counts even when the file looks the same, because a new socket may have the old inode number within one
  // tick of the file system's clock; but one start causes several events, and counts once.
  const bool touched = std::exchange(kubelet_touched_, false);
  const bool started = kubelet_ && (kubelet_ != before || (touched && loop_.now() - kubelet_started_ > kOneStart));
  if (started) kubelet_started_ = loop_.now();
  for (const auto& [name, plugin] : plugins_) {
    if (started) plugin->kubelet_started();
    plugin->look();
  }
  audit_.start(settings_.audit_every, [this] { look_around(); });
}

void PluginHost::report() {
  std::vector<PluginState> now = states();
  if (now == reported_) return;
  reported_ = std::move(now);
  if (on_change_) on_change_();
}

}  // namespace tranche::kubelet
