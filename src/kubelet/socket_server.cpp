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
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::kubelet {
namespace {

constexpr std::string_view kTemporary = ".t";
// The longest time from a socket's name to its listener: two system calls, between which the kernel may run other
// processes. A restarted container takes longer to get here, so a killed server's socket is older.
constexpr Duration kBeingMade = std::chrono::milliseconds(50);

// `is_left`: whether a file of this name may be one that a killed process left.
template <class IsLeft>
void remove_unanswered(const std::string& directory, IsLeft is_left) {
  for (const auto& name : os::names_in(directory)) {
    const std::string path = directory + "/" + name;
    if (is_left(name) && os::look_at_socket(path) && !os::probe_listener(path).alive) ::unlink(path.c_str());
  }
}

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
  return fmt::format(".t{:x}{}", now.time_since_epoch().count(), mark_of(socket_name));
}

void remove_left_over_sockets(const std::string& directory, const std::string& socket_name, MonoTime now) {
  remove_unanswered(directory, [mark = mark_of(socket_name), now](const std::string& name) {
    if (!name.starts_with(kTemporary) || name.size() <= kTemporary.size() + mark.size() || !name.ends_with(mark))
      return false;
    MonoTime::rep made = 0;
    const char* last = name.data() + name.size() - mark.size();
    const auto read = std::from_chars(name.data() + kTemporary.size(), last, made, 16);
    if (read.ec != std::errc{} || read.ptr != last) return false;
    const MonoTime then{MonoTime::duration(made)};
    return then > now || now - then >= kBeingMade;  // after a restart of the machine `then` is ahead of us
  });
}

void remove_deserted_sockets(const std::string& directory, std::string_view begin, std::string_view end) {
  remove_unanswered(directory, [begin, end](const std::string& name) {
    return name.size() >= begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
  });
}

Result<std::unique_ptr<SocketServer>> SocketServer::open(const std::vector<grpc::Service*>& services,
                                                         const std::string& directory, const std::string& name,
                                                         MonoTime now, Duration stop_within) {
  remove_left_over_sockets(directory, name, now);
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
