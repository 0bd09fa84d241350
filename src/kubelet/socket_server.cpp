#include "kubelet/socket_server.h"

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

namespace tranche::kubelet {
namespace {

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

Result<std::unique_ptr<SocketServer>> SocketServer::open(const std::vector<grpc::Service*>& services,
                                                         const std::string& directory, const std::string& name,
                                                         MonoTime now, Duration stop_within) {
  remove_left_over_sockets(directory, name, now);
  std::string path = directory + "/" + name;
  TRY_STATUS(check_socket_path(path));
  const std::string temporary = directory + "/" + temporary_socket_name(name, now);
  TRY_STATUS(check_socket_path(temporary));
  // gRPC says only that it could not listen; the usual reasons show here.
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return fail_errno("cannot create a socket in", directory);
  std::unique_ptr<SocketServer> server(new SocketServer(std::move(path), stop_within));
  server->predecessor_ = probe_listener(server->path_);
  server->server_ = serve(services, temporary);
  if (!server->server_) return fail(Kind::kUnavailable, "cannot listen on a socket in", directory);
  server->file_ = look_at_socket(temporary);
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
  const std::optional<SocketFile> there = look_at_socket(path_);
  if (!there) return {Place::kDeleted, 0};
  if (file_ && there->same_file(*file_)) return {Place::kOurs, 0};
  const Listener listener = probe_listener(path_);
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
