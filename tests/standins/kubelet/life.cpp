// Start and stop of the stand-in, and what it remembers in between.
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "standins/kubelet/kubelet_impl.h"

namespace tranche::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestSocketPath = 107;

// kubelet's clean-up of the plugin directory: all sockets, and only sockets.
Status remove_sockets(const std::string& dir) {
  std::error_code problem;
  fs::create_directories(dir, problem);
  if (problem) return std::unexpected(error_from_errno(problem.value(), "cannot create", dir));
  for (fs::directory_iterator entry(dir, problem), end; !problem && entry != end; entry.increment(problem)) {
    struct stat status{};
    if (::lstat(entry->path().c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(entry->path().c_str());
  }
  if (problem) return std::unexpected(error_from_errno(problem.value(), "cannot list", dir));
  return {};
}

Status make_place_for(const std::string& socket) {
  std::error_code problem;
  const auto dir = fs::path(socket).parent_path();
  if (!dir.empty()) fs::create_directories(dir, problem);
  if (problem) return std::unexpected(error_from_errno(problem.value(), "cannot create", dir.string()));
  ::unlink(socket.c_str());
  return {};
}

Result<std::unique_ptr<grpc::Server>> serve(const std::string& path, grpc::Service& service) {
  if (path.size() > kLongestSocketPath) {
    return fail(Kind::kInvalid,
                fmt::format("a socket's path has at most {} characters, this one {}: choose a shorter directory",
                            kLongestSocketPath, path.size()),
                path);
  }
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(&service);
  // A thread of gRPC's synchronous server may sleep this long before it notices a shutdown; the default is 10 s.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::CQ_TIMEOUT_MSEC, 100);
  auto server = builder.BuildAndStart();
  if (!server || bound == 0) return fail(Kind::kUnavailable, "cannot listen", path);
  return server;
}

void shut_down(std::unique_ptr<grpc::Server>& server) {
  if (server) server->Shutdown(std::chrono::system_clock::now());
  server.reset();
}

// Destroying the last gRPC object shuts the library down, which may wait up to 10 s for its backup poller if a write
// was cut off before. This object keeps the library in use until the process exits.
void keep_grpc_up() {
  static const bool kept = (grpc_init(), true);
  (void)kept;
}

}  // namespace

void Kubelet::Impl::notify() {
  changed.notify_all();
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex);
    wake = callback;
  }
  if (wake) wake();
}

Status Kubelet::Impl::start() {
  {
    const std::lock_guard lock(mutex);
    if (running) return {};
  }
  TRY_STATUS(remove_sockets(settings.plugin_dir));
  {
    const std::lock_guard lock(mutex);
    ledger = std::exchange(remembered, {});
    for (const std::string& resource : ledger.resources()) {
      // Known but empty until its plugin registers again: capacity stays zero.
      ledger.expect(resource);
      endpoints[resource].stopped = true;
    }
    running = true;  // before the first Register can arrive
  }
  const auto listen = [&]() -> Status {
    registration_service = make_registration_service(*this);
    TRY(registration_server, serve(settings.plugin_dir + "/kubelet.sock", *registration_service));
    if (settings.pod_resources_socket.empty()) return {};
    TRY_STATUS(make_place_for(settings.pod_resources_socket));
    pod_resources_service = make_pod_resources_service(*this);
    TRY(pod_resources_server, serve(settings.pod_resources_socket, *pod_resources_service));
    return {};
  };
  const Status listening = listen();
  if (!listening) stop();
  return listening;
}

void Kubelet::Impl::stop() {
  std::vector<std::unique_ptr<Stream>> ending;
  {
    const std::lock_guard lock(mutex);
    if (!running) return;
    running = false;
    for (const auto& client : connecting) client->cancel();
    for (auto& [resource, endpoint] : endpoints) {
      if (endpoint.client) endpoint.client->cancel();
    }
    for (const auto& stream : streams) cancel_stream(*stream);
    ending = std::move(streams);
    streams.clear();
  }
  changed.notify_all();
  shut_down(registration_server);
  shut_down(pod_resources_server);
  registration_service.reset();
  pod_resources_service.reset();
  {
    const std::lock_guard lock(mutex);  // a Register in progress may have opened another one
    for (auto& stream : streams) {
      cancel_stream(*stream);
      ending.push_back(std::move(stream));
    }
    streams.clear();
  }
  changed.notify_all();
  ending.clear();  // joins
  {
    const std::lock_guard admission(admitting);  // an admission in progress has lost its connection and ends
    const std::lock_guard lock(mutex);
    endpoints.clear();
    remembered = std::exchange(ledger, {});
    paused.clear();
  }
  notify();
}

Result<std::unique_ptr<Kubelet>> Kubelet::open(KubeletSettings settings) {
  keep_grpc_up();
  auto impl = std::make_unique<Impl>(std::move(settings));
  TRY_STATUS(impl->start());
  return std::unique_ptr<Kubelet>(new Kubelet(std::move(impl)));
}

Kubelet::Kubelet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Kubelet::~Kubelet() {
  impl_->stop();
}
void Kubelet::stop() {
  impl_->stop();
}
Status Kubelet::start() {
  return impl_->start();
}

Status Kubelet::restart() {
  impl_->stop();
  return impl_->start();
}

std::string Kubelet::registration_socket() const {
  return impl_->settings.plugin_dir + "/kubelet.sock";
}

void Kubelet::on_change(std::function<void()> callback) {
  const std::lock_guard lock(impl_->mutex);
  impl_->callback = std::move(callback);
}

}  // namespace tranche::sim
