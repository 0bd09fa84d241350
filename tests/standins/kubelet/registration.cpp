// Register and the ListAndWatch streams: how a plugin becomes the endpoint of a resource, and how that ends.
#include <fmt/format.h>

#include <algorithm>

#include "standins/kubelet/kubelet_impl.h"
#include "standins/kubelet/resource_name.h"

namespace tranche::sim {
namespace {

PluginOptions plain(const v1beta1::DevicePluginOptions& options) {
  return {.pre_start_required = options.pre_start_required(),
          .preferred_allocation = options.get_preferred_allocation_available()};
}

std::vector<Device> plain(const v1beta1::ListAndWatchResponse& message) {
  std::vector<Device> result;
  for (const auto& device : message.devices()) {
    Device plain{.id = device.id(), .healthy = device.health() == "Healthy", .numa_nodes = {}};
    for (const auto& node : device.topology().nodes()) plain.numa_nodes.push_back(node.id());
    result.push_back(std::move(plain));
  }
  return result;
}

// kubelet's own errors reach the plugin as UNKNOWN: they are plain Go errors.
grpc::Status refuse(std::string why) {
  return {grpc::StatusCode::UNKNOWN, std::move(why)};
}

class RegistrationService final : public v1beta1::Registration::Service {
 public:
  explicit RegistrationService(Kubelet::Impl& impl) : impl_(impl) {}

  grpc::Status Register(grpc::ServerContext*, const v1beta1::RegisterRequest* request, v1beta1::Empty*) override {
    return impl_.register_plugin(*request);
  }

 private:
  Kubelet::Impl& impl_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_registration_service(Kubelet::Impl& impl) {
  return std::make_unique<RegistrationService>(impl);
}

grpc::Status Kubelet::Impl::register_plugin(const v1beta1::RegisterRequest& request) {
  PluginOptions answered;
  const grpc::Status status = register_checked(request, &answered);
  {
    const std::lock_guard lock(mutex);
    if (status.ok()) {
      registrations.push_back({.number = registrations.size() + 1,
                               .resource = request.resource_name(),
                               .endpoint = request.endpoint(),
                               .version = request.version(),
                               .in_request = plain(request.options()),
                               .answered = answered});
    }
    calls.push_back({.method = Call::Method::kRegister,
                     .resource = request.resource_name(),
                     .endpoint = request.endpoint(),
                     .status = status.error_code(),
                     .message = status.error_message()});
  }
  notify();
  return status;
}

grpc::Status Kubelet::Impl::register_checked(const v1beta1::RegisterRequest& request, PluginOptions* answered) {
  const std::string& resource = request.resource_name();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !hanging || !running; });
    if (!running) return {grpc::StatusCode::UNAVAILABLE, "kubelet is stopping"};
    if (refusals > 0) {
      --refusals;
      return refusal;
    }
  }
  if (request.version() != "v1beta1") {
    return refuse(fmt::format("version \"{}\" is not supported by kubelet, which speaks v1beta1", request.version()));
  }
  if (!is_extended_resource(resource)) return refuse(fmt::format("the resource name \"{}\" is invalid", resource));
  if (request.endpoint().empty() || request.endpoint().find('/') != std::string::npos) {
    return refuse(fmt::format("the endpoint \"{}\" is not a file name in {}", request.endpoint(), settings.plugin_dir));
  }

  const auto client =
      std::make_shared<PluginClient>(resource, settings.plugin_dir + "/" + request.endpoint(), settings.authority);
  {
    const std::lock_guard lock(mutex);
    if (!running) return {grpc::StatusCode::UNAVAILABLE, "kubelet is stopping"};
    connecting.insert(client);
  }
  const auto connect = [&]() -> grpc::Status {
    if (const Status dialled = client->connect(settings.dial_deadline); !dialled) {
      return refuse(to_string(dialled.error()));
    }
    // The plugin must answer while its own Register call is in progress, so on another thread.
    v1beta1::DevicePluginOptions options;
    const grpc::Status status = client->options(&options);
    record({.method = Call::Method::kGetOptions,
            .resource = resource,
            .endpoint = request.endpoint(),
            .status = status.error_code(),
            .message = status.error_message()});
    if (!status.ok()) return refuse("failed to get device plugin options: " + go_status_text(status));
    *answered = plain(options);
    return grpc::Status::OK;
  };
  const grpc::Status connected = connect();

  const std::lock_guard lock(mutex);
  connecting.erase(client);
  if (!connected.ok()) return connected;
  if (!running) return {grpc::StatusCode::UNAVAILABLE, "kubelet is stopping"};
  // The newest registration holds the resource. The stream of an earlier endpoint ends by itself.
  endpoints[resource] = {.name = request.endpoint(), .client = client, .options = *answered};
  open_stream(client, false);
  return grpc::Status::OK;
}

std::uint64_t Kubelet::Impl::open_stream(std::shared_ptr<PluginClient> client, bool extra) {
  // Threads of ended streams are joined here and in stop(): they are about to return.
  std::erase_if(streams, [](const auto& stream) { return stream->ended; });
  auto stream = std::make_unique<Stream>();
  stream->number = ++streams_opened;
  stream->extra = extra;
  stream->client = std::move(client);
  Stream& opened = *stream;
  streams.push_back(std::move(stream));
  opened.thread = std::jthread([this, &opened] { run_stream(opened); });
  return opened.number;
}

void Kubelet::Impl::run_stream(Stream& stream) {
  const auto reader = stream.client->stub().ListAndWatch(&stream.context, {});
  v1beta1::ListAndWatchResponse message;
  const auto may_read = [&] { return stream.cancelled || !paused.contains(stream.client->resource()); };
  while (true) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, may_read);
      if (stream.cancelled) break;
    }
    message.Clear();
    if (!reader->Read(&message)) break;
    {
      std::unique_lock lock(mutex);  // a message that was already being read when the pause began
      changed.wait(lock, may_read);
      if (stream.cancelled) break;
    }
    take_message(stream, message);
  }
  end_stream(stream, reader->Finish());
}

void Kubelet::Impl::take_message(Stream& stream, const v1beta1::ListAndWatchResponse& message) {
  const std::string& resource = stream.client->resource();
  {
    const std::lock_guard lock(mutex);
    std::vector<Device> devices = plain(message);
    const auto found = endpoints.find(resource);
    const bool current = found != endpoints.end() && found->second.client == stream.client;
    // Old kubelets accept the message of any stream of the resource.
    if (!stream.extra && (current || settings.old_stream_end_disconnects_current)) {
      ledger.set_devices(resource, devices);
    }
    messages.push_back({.resource = resource,
                        .endpoint = stream.client->endpoint(),
                        .stream = stream.number,
                        .devices = std::move(devices)});
    if (!stream.extra && streams_to_end > 0) {
      --streams_to_end;
      cancel_stream(stream);
    }
  }
  notify();
}

void Kubelet::Impl::end_stream(Stream& stream, const grpc::Status& status) {
  const std::string& resource = stream.client->resource();
  const bool extra = stream.extra;
  {
    const std::lock_guard lock(mutex);
    calls.push_back({.method = Call::Method::kListAndWatch,
                     .resource = resource,
                     .endpoint = stream.client->endpoint(),
                     .status = status.error_code(),
                     .message = status.error_message()});
    const auto found = endpoints.find(resource);
    if (running && !extra && found != endpoints.end()) {
      const bool current = found->second.client == stream.client;
      if (current || settings.old_stream_end_disconnects_current) disconnect(resource);
    }
  }
  notify();
  const std::lock_guard lock(mutex);
  stream.ended = true;  // the thread returns without locking the mutex again, so it may be joined while locked
}

void Kubelet::Impl::disconnect(const std::string& resource) {
  Endpoint& endpoint = endpoints[resource];
  ledger.lose(resource);
  if (endpoint.stopped) return;
  endpoint.stopped = true;
  if (!endpoint.client) return;
  endpoint.client->cancel();
  for (const auto& stream : streams) {
    if (!stream->extra && stream->client == endpoint.client) cancel_stream(*stream);
  }
}

void Kubelet::Impl::cancel_stream(Stream& stream) {
  if (stream.ended) return;  // its context is no longer in use
  stream.cancelled = true;
  stream.context.TryCancel();
}

Status Kubelet::close_stream(const std::string& resource) {
  {
    const std::lock_guard lock(impl_->mutex);
    const auto found = impl_->endpoints.find(resource);
    if (found == impl_->endpoints.end() || !found->second.client || found->second.stopped) {
      return fail(Kind::kNotFound, "no stream is open", resource);
    }
    for (const auto& stream : impl_->streams) {
      if (!stream->extra && stream->client == found->second.client) impl_->cancel_stream(*stream);
    }
  }
  impl_->changed.notify_all();
  return {};
}

Result<std::uint64_t> Kubelet::open_extra_stream(const std::string& resource, std::string authority) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->endpoints.find(resource);
  if (found == impl_->endpoints.end() || !found->second.client) {
    return fail(Kind::kNotFound, "no plugin is registered", resource);
  }
  auto client = std::make_shared<PluginClient>(resource, found->second.client->path(),
                                               authority.empty() ? impl_->settings.authority : authority);
  return impl_->open_stream(std::move(client), true);
}

Status Kubelet::close_extra_stream(std::uint64_t number) {
  {
    const std::lock_guard lock(impl_->mutex);
    const auto found =
        std::ranges::find_if(impl_->streams, [&](const auto& s) { return s->extra && s->number == number; });
    if (found == impl_->streams.end()) return fail(Kind::kNotFound, fmt::format("no extra stream {}", number));
    impl_->cancel_stream(**found);
  }
  impl_->changed.notify_all();
  return {};
}

void Kubelet::pause_reading(const std::string& resource) {
  const std::lock_guard lock(impl_->mutex);
  impl_->paused.insert(resource);
}

void Kubelet::resume_reading(const std::string& resource) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->paused.erase(resource);
  }
  impl_->changed.notify_all();
}

void Kubelet::list_no_pods(bool none) {
  const std::lock_guard lock(impl_->mutex);
  impl_->lists_no_pods = none;
}

void Kubelet::refuse_next_registrations(int count, int grpc_code, std::string message) {
  const std::lock_guard lock(impl_->mutex);
  impl_->refusals = count;
  impl_->refusal = grpc::Status(static_cast<grpc::StatusCode>(grpc_code), std::move(message));
}

void Kubelet::end_next_streams(int count) {
  const std::lock_guard lock(impl_->mutex);
  impl_->streams_to_end = count;
}

void Kubelet::hang_registrations() {
  const std::lock_guard lock(impl_->mutex);
  impl_->hanging = true;
}

void Kubelet::release_registrations() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->hanging = false;
  }
  impl_->changed.notify_all();
}

}  // namespace tranche::sim
