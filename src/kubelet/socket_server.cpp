#include "kubelet/socket_server.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::kubelet {
namespace {

constexpr std::string_view kTemporary = ".t";

std::string mark_of(const std::string& socket_name) {
  return fmt::format("{:04x}", stable_hash(socket_name) & 0xffffU);
}

// A reader that never reads must not grow us. gRPC takes a question of up to 4 MiB, which all ids of the longest list
// stay below: four of them at a time, and as much for what is sent.
constexpr std::size_t kMemoryQuota = 32 << 20;

std::unique_ptr<grpc::Server> serve(const std::vector<grpc::Service*>& services, const std::string& path) {
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("tranche");
  quota.Resize(kMemoryQuota);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  int bound = 0;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials(), &bound);
  for (grpc::Service* service : services) builder.RegisterService(service);
  return builder.BuildAndStart();
}

}  // namespace

std::string temporary_socket_name(const std::string& socket_name, MonoTime now) {
  return fmt::format("{}{:x}{}", kTemporary, now.time_since_epoch().count(), mark_of(socket_name));
}

void remove_deserted_sockets(const std::string& directory, std::string_view begin, std::string_view end) {
  for (const auto& name : os::names_in(directory)) {
    const std::string path = directory + "/" + name;
    const bool is_one = name.size() >= begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
    if (is_one && os::look_at_socket(path) && !os::probe_listener(path).alive) ::unlink(path.c_str());
  }
}

Result<std::unique_ptr<SocketServer>> SocketServer::open(const std::vector<grpc::Service*>& services,
                                                         const std::string& directory, const std::string& name,
                                                         MonoTime now, Duration stop_within) {
  remove_deserted_sockets(directory, kTemporary, mark_of(name));
  std::string path = directory + "/" + name;
  TRY_STATUS(os::unix_address(path));
  const std::string temporary = directory + "/" + temporary_socket_name(name, now);
  TRY_STATUS(os::unix_address(temporary));
  // gRPC says only that it could not listen; the usual reasons show here.
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return fail_errno("cannot create a socket in", directory);
  std::unique_ptr<SocketServer> server(new SocketServer(std::move(path), stop_within));
  server->predecessor_ = os::probe_listener(server->path_);
  server->server_ = serve(services, temporary);
  if (!server->server_) return fail(Kind::kUnavailable, "cannot listen on a socket in", directory);
  server->file_ = os::look_at_socket(temporary);
  if (::rename(temporary.c_str(), server->path_.c_str()) != 0)
    return fail_errno("cannot put the socket in place", server->path_);
  return server;
}

SocketServer::~SocketServer() {
  if (!server_) return;
  if (look().place == Place::kOurs) ::unlink(path_.c_str());
  server_->Shutdown(grpc_span(stop_within_));
  server_->Wait();
}

SocketServer::Finding SocketServer::look() const {
  const std::optional<os::SocketFile> there = os::look_at_socket(path_);
  if (!there) return {Place::kDeleted, 0};
  if (file_ && there->same_file(*file_)) return {Place::kOurs, 0};
  const os::Listener listener = os::probe_listener(path_);
  return listener.alive ? Finding{Place::kTaken, listener.pid} : Finding{Place::kDeserted, 0};
}

std::shared_ptr<grpc::Channel> local_channel(const std::string& socket_path) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetMaxReceiveMessageSize(16 << 20);  // kubelet's own limit for PodResources
  return grpc::CreateCustomChannel("unix:" + socket_path, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace tranche::kubelet

// gRPC's threads for callbacks ask its queue for at most a second at a time, pause for 100 ms, and ask again: some five
// wake-ups a second in a program that has nothing to do, half of what it uses at rest. The queue is woken by every
// event and by its end, so they wait without a limit instead. The linker puts this in the place of gRPC's function
// (CMakeLists.txt); nothing else here calls it.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
grpc_event __real_grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved);

grpc_event __wrap_grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  return __real_grpc_completion_queue_next(queue, gpr_inf_future(deadline.clock_type), reserved);
}
// NOLINTEND(bugprone-reserved-identifier)
}
