// Which server serves which client: one server at a time without -M, so another user's clients wait (facts: section 4).
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "standins/mps/control_daemon.h"

namespace tranche::sim {
namespace {

constexpr int kChannel = 3;  // where a server finds its channel

// In the child: put the descriptors where the server expects them and become it.
[[noreturn]] void become_server(const std::string& program, int channel, int output) {
  ::dup2(output, STDOUT_FILENO);
  if (channel == kChannel) {
    ::fcntl(channel, F_SETFD, 0);
  } else {
    ::dup2(channel, kChannel);
  }
  ::execl(program.c_str(), "nvidia-cuda-mps-server", static_cast<char*>(nullptr));
  ::_exit(1);
}

}  // namespace

void ControlDaemon::place(Session& session) {
  const std::string who =
      "NEW CLIENT " + std::to_string(session.peer.pid) + " from user " + std::to_string(session.peer.uid) + ": ";
  Server* server = server_for(session);
  if (server != nullptr && server->ready) {
    log_.line(who + "Server already exists");
    hand_over(session, *server);
    return;
  }
  log_.line(who + "Server is not ready, push client to pending list");
  session.pending = true;
}

ControlDaemon::Server* ControlDaemon::server_for(Session& session) {
  return serving(options_.multi_user ? owner_ : session.peer.uid);
}

void ControlDaemon::place_pending() {
  for (const auto& session : sessions_) {
    if (!session->pending || session->closed || quitting_) continue;
    if (waited_for() != nullptr) break;  // one client after the other
    const uid_t uid = options_.multi_user ? owner_ : session->peer.uid;
    Server* server = server_for(*session);
    if (server != nullptr) {
      if (!server->ready) continue;
      session->pending = false;
      hand_over(*session, *server);
      continue;
    }
    if (servers_.empty()) {
      if (start_server(uid) == nullptr) continue;
    } else if (servers_.front()->ready && !servers_.front()->leaving) {
      // Another user's server is shut down once its clients have disconnected; until then the new client waits.
      shut_down(*servers_.front(), false);
    }
  }
  std::erase_if(sessions_, [](const auto& session) { return session->closed; });
}

ControlDaemon::Server* ControlDaemon::serving(uid_t uid) {
  for (const auto& server : servers_) {
    if (server->pid != 0 && !server->forced && server->uid == uid) return server.get();
  }
  return nullptr;
}

ControlDaemon::Server* ControlDaemon::start_server(uid_t uid) {
  auto [ours, theirs] = socket_pair();
  if (!ours.valid()) return nullptr;
  auto server = std::make_unique<Server>();
  const pid_t pid = ::fork();
  if (pid < 0) return nullptr;
  if (pid == 0) {
    log_.line("Starting new server " + std::to_string(::getpid()) + " for user " + std::to_string(uid));
    become_server(options_.server_program, theirs.get(), server_output_);
  }
  server->pid = pid;
  server->uid = uid;
  server->channel = std::move(ours);
  server->watch.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  std::string memory, uuids;
  for (const auto& [key, bytes] : options_.memory.entries()) memory += key + " " + std::to_string(bytes) + " ";
  for (const auto& device : devices_) uuids += (uuids.empty() ? "" : ",") + device.properties.uuid;
  // Defaults are fixed for a server here: a later set_default_… applies to the next one only (facts: section 1).
  send_message(server->channel.get(), {"options",
                                       {{"uid", std::to_string(uid)},
                                        {"threads", std::to_string(options_.threads)},
                                        {"priority", std::to_string(priority_)},
                                        {"memory", memory},
                                        {"devices", uuids}}});
  servers_.push_back(std::move(server));
  return servers_.back().get();
}

void ControlDaemon::force_down(Server& server) {
  log_.line("Force shutting down server " + std::to_string(server.pid));
  server.retry_ns = 0;
  ::kill(server.pid, SIGKILL);
}

void ControlDaemon::shut_down(Server& server, bool back_off) {
  server.leaving = true;
  server.retry_ns = 0;
  log_.line("Try shutting down server " + std::to_string(server.pid) + ", backoff is " +
            (back_off ? "enabled" : "disabled"));
  send_message(server.channel.get(), {"shutdown", {}});
}

// The client now communicates with the server; the daemon waits only for its acknowledgement.
void ControlDaemon::hand_over(Session& session, Server& server) {
  session.closed = true;
  auto [client_end, server_end] = socket_pair();
  if (!client_end.valid()) return;
  const std::string dead = session.dead ? "1" : "0";
  const Message client{
      "client", {{"pid", std::to_string(session.peer.pid)}, {"uid", std::to_string(session.peer.uid)}, {"dead", dead}}};
  if (!send_message(server.channel.get(), client, server_end.get())) return;
  if (session.dead || !send_packet(session.fd.get(), kDescriptor, client_end.get())) return;
  session.kind = SessionKind::kHandedOver;
  session.closed = false;
}

}  // namespace tranche::sim
