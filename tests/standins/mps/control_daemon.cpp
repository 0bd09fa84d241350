#include "standins/mps/control_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace tranche::sim {
namespace {

constexpr int kMaxFailedStarts = 5;  // then waiting clients get 805 (reference 1.1, last entry)

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Opens a file that other users may write whatever the umask is, like the daemon's lock and pid files.
Fd open_for_all(const std::string& path, int flags) {
  Fd fd(::open(path.c_str(), flags | O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (fd.valid()) ::fchmod(fd.get(), 0666);
  return fd;
}

}  // namespace

Claim claim_pipe_directory(const std::string& directory, PipeDirectory* claimed, std::string* why) {
  const auto failed = [&](const std::string& what) {
    *why = what + ": " + std::strerror(errno);
    return Claim::kFailed;
  };
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) return failed("cannot create " + directory);
  claimed->lock = open_for_all(directory + "/control_lock", 0);
  if (!claimed->lock.valid()) return failed("cannot open " + directory + "/control_lock");
  struct flock whole{};
  whole.l_type = F_WRLCK;
  if (::fcntl(claimed->lock.get(), F_SETLK, &whole) != 0) return Claim::kOtherDaemon;
  // After this the directory belongs to this daemon: files of a killed daemon are replaced.
  claimed->control = listen_at(directory + "/control", 0666);
  claimed->privileged = listen_at(directory + "/control_privileged", 0755);
  if (!claimed->control.valid() || !claimed->privileged.valid()) return failed("cannot listen in " + directory);
  const std::string fifo = directory + "/log";
  ::unlink(fifo.c_str());
  if (::mkfifo(fifo.c_str(), 0777) != 0 || ::chmod(fifo.c_str(), 0777) != 0) return failed("cannot create " + fifo);
  const std::string pid_file = directory + "/nvidia-cuda-mps-control.pid";
  const Fd pid = open_for_all(pid_file, O_TRUNC);
  const std::string text = std::to_string(::getpid());
  if (!pid.valid() || ::write(pid.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return failed("cannot write " + pid_file);
  }
  return Claim::kTaken;
}

ControlDaemon::ControlDaemon(std::unique_ptr<Node> node, std::vector<VisibleGpu> devices, ControlOptions options,
                             PipeDirectory directory, MpsLog log, int server_output)
    : node_(std::move(node)),
      devices_(std::move(devices)),
      options_(std::move(options)),
      directory_(std::move(directory)),
      log_(std::move(log)),
      server_output_(server_output),
      owner_(::geteuid()) {}

int ControlDaemon::run() {
  log_.line("Starting control daemon using socket " + options_.pipe_directory + "/control");
  log_.line("To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=" + options_.pipe_directory);
  log_.line("CUDA MPS Control binary version: " + std::to_string(node_->cuda_version()));
  for (;;) {
    std::vector<pollfd> fds{{directory_.control.get(), POLLIN, 0}, {directory_.privileged.get(), POLLIN, 0}};
    const std::size_t first_session = fds.size();
    // The daemon waits for its server's answer synchronously: until then it does not read from other connections.
    const bool asking = !questions_.empty();
    // It also reads a new client's credentials and type, and its acknowledgement of the server, without interruption.
    const Session* only = waited_for();
    if (asking || only != nullptr) {
      for (auto& listener : fds) listener.fd = -1;
    }
    for (const auto& session : sessions_) {
      const bool deaf = asking || session->dead || (only != nullptr && only != session.get());
      fds.push_back({deaf ? -1 : session->fd.get(), POLLIN, 0});
    }
    const std::size_t first_server = fds.size();
    for (const auto& server : servers_) {
      fds.push_back({server->channel.get(), POLLIN, 0});
      fds.push_back({server->watch.get(), POLLIN, 0});
    }
    const std::size_t session_count = sessions_.size(), server_count = servers_.size();
    if (::poll(fds.data(), fds.size(), wait_ms(monotonic_ns())) < 0 && errno != EINTR) return 1;
    for (std::size_t i = 0; i < server_count; ++i) {
      if (fds[first_server + 2 * i].revents != 0) hear_server(*servers_[i]);
      if (fds[first_server + 2 * i + 1].revents != 0) bury(*servers_[i]);
    }
    for (std::size_t i = 0; i < session_count; ++i) {
      if (fds[first_session + i].revents != 0) hear_session(*sessions_[i]);
    }
    if (fds[0].revents != 0 && waited_for() == nullptr) accept_from(directory_.control, false);
    if (fds[1].revents != 0 && waited_for() == nullptr) accept_from(directory_.privileged, true);
    retry_shutdowns(monotonic_ns());
    std::erase_if(servers_, [](const auto& server) { return server->pid == 0; });
    std::erase_if(sessions_, [](const auto& session) { return session->closed; });
    if (quitting_ && servers_.empty()) break;
    place_pending();
  }
  log_.line("Exit with status 0");
  remove_files();
  for (const auto& session : sessions_) {
    if (session->quits) send_status(session->fd.get(), 0);
  }
  return 0;
}

// An orderly exit leaves only the sockets and the lock (transcripts/ends.txt).
void ControlDaemon::remove_files() const {
  ::unlink((options_.pipe_directory + "/log").c_str());
  ::unlink((options_.pipe_directory + "/nvidia-cuda-mps-control.pid").c_str());
}

int ControlDaemon::wait_ms(std::int64_t now_ns) const {
  std::int64_t first = quit_by_ns_;
  for (const auto& server : servers_) {
    if (server->retry_ns != 0 && (first == 0 || server->retry_ns < first)) first = server->retry_ns;
  }
  return first == 0 ? -1 : static_cast<int>(std::max<std::int64_t>(0, (first - now_ns + 999'999) / 1'000'000));
}

void ControlDaemon::accept_from(const Fd& listener, bool privileged) {
  Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return;
  log_.line("Accepting connection...");
  if (!accept_identities(fd.get()) || !send_packet(fd.get(), kHello)) return;
  auto session = std::make_unique<Session>();
  session->fd = std::move(fd);
  session->privileged = privileged;
  sessions_.push_back(std::move(session));
}

const ControlDaemon::Session* ControlDaemon::waited_for() const {
  for (const auto& session : sessions_) {
    const bool between = session->kind == SessionKind::kGreeted || session->kind == SessionKind::kHandedOver;
    if (between && !session->closed) return session.get();
  }
  return nullptr;
}

void ControlDaemon::hear_session(Session& session) {
  if (session.closed) return;
  Packet packet;
  if (receive_packet(session.fd.get(), &packet) != Arrived::kPacket) {
    if (session.kind == SessionKind::kCommands) log_.line("UI closed");
    if (session.kind == SessionKind::kGreeted) log_.line("User did not send valid credentials");
    // A client that dies while it waits for another user's server keeps its place in the queue.
    session.dead = session.pending && !options_.multi_user && !servers_.empty();
    session.closed = !session.dead;
    return;
  }
  if (session.kind == SessionKind::kGreeted) return hear_greeted(session, packet);
  if (session.kind == SessionKind::kCommands) return hear_command(session, packet.bytes);
  session.closed = true;  // a client that its server has accepted; or an unknown protocol
}

void ControlDaemon::hear_command(Session& session, const std::string& bytes) {
  const std::size_t announced = std::exchange(session.announced, 0);
  if (announced == 0) {
    const auto length = length_of(bytes);
    session.closed = !length;
    session.announced = static_cast<std::size_t>(length.value_or(0));
    session.ending = length == 0u;
  } else {
    session.closed = bytes.size() != announced || !bytes.ends_with(std::string_view("\n\0", 2));
    if (!session.closed) session.lines.push_back(bytes.substr(0, bytes.size() - 2));
  }
  run_commands(session);
}

void ControlDaemon::hear_greeted(Session& session, const Packet& packet) {
  if (!session.known) {
    session.known = packet.bytes == kCredentials && packet.sender.has_value();
    if (session.known) {
      session.peer = {packet.sender->pid, packet.sender->uid};
      return;
    }
    log_.line("User did not send valid credentials");
    session.closed = true;
    return;
  }
  const auto type = type_of(packet.bytes);
  if (type == static_cast<std::uint32_t>(ConnectionType::kCommands)) return begin_commands(session);
  if (type != static_cast<std::uint32_t>(ConnectionType::kClient)) {
    session.closed = true;  // an unknown type; stand-in servers do not connect
    return;
  }
  session.kind = SessionKind::kClient;
  place(session);
}

void ControlDaemon::begin_commands(Session& session) {
  session.closed = std::ranges::any_of(
      sessions_, [](const auto& other) { return other->kind == SessionKind::kCommands && !other->closed; });
  if (session.closed) return;  // one at a time
  session.kind = SessionKind::kCommands;
  log_.line("NEW UI");
}

bool ControlDaemon::hear_server(Server& server) {
  Message message;
  if (server.pid == 0 || receive_message(server.channel.get(), &message) != Received::kMessage) return false;
  if (message.verb == "ready") {
    server.ready = true;
    failed_starts_ = 0;
    log_.line("NEW SERVER " + std::to_string(server.pid) + ": Ready");
  } else if (message.verb == "clients") {
    server.clients = static_cast<int>(message.number("count"));
  } else if (message.verb == "busy") {
    const auto pid = std::to_string(server.pid);
    log_.line("Server " + pid + " has " + message.text("count") + " active worker threads. Server will not shutdown.");
    if (server.forced) {
      force_down(server);
      return true;
    }
    server.retry_after_ms = server.retry_after_ms == 0 ? 200 : 2 * server.retry_after_ms;
    server.retry_ns = monotonic_ns() + server.retry_after_ms * 1'000'000;
    log_.line("Control will try shutting down server " + pid + " again in at most " +
              std::to_string(server.retry_after_ms) + "ms");
  } else if (message.verb == "answer") {
    const std::int64_t id = message.number("id");
    questions_.erase(id);
    for (const auto& session : sessions_) {
      if (session->closed || session->waits_for != id) continue;
      session->waits_for = 0;
      reply(*session, message.text("text"));
      run_commands(*session);
    }
  }
  return true;
}

void ControlDaemon::bury(Server& server) {
  if (server.pid == 0) return;
  while (hear_server(server)) {  // a last answer may be in the channel
  }
  int status = 0;
  ::waitpid(server.pid, &status, 0);
  log_.line("Server " + std::to_string(server.pid) + " exited with status " +
            std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 0));
  const bool failed_start = !server.ready;
  const pid_t pid = std::exchange(server.pid, 0);
  for (const auto& [id, asked] : std::map(questions_)) {
    if (asked != pid) continue;
    questions_.erase(id);
    for (const auto& session : sessions_) {
      if (session->closed || session->waits_for != id) continue;
      session->waits_for = 0;
      reply(*session, "Server " + std::to_string(pid) + " not found\n");
      run_commands(*session);
    }
  }
  if (!failed_start || ++failed_starts_ < kMaxFailedStarts) return;
  failed_starts_ = 0;
  for (const auto& session : sessions_) {
    if (!session->pending) continue;
    send_message(session->fd.get(), {"refused", {{"code", "805"}}});
    session->pending = false;
    session->closed = true;
  }
}

void ControlDaemon::retry_shutdowns(std::int64_t now_ns) {
  for (const auto& server : servers_) {
    if (server->pid == 0) continue;
    if (quit_by_ns_ != 0 && now_ns >= quit_by_ns_) {
      server->forced = true;
      shut_down(*server, false);
    } else if (server->retry_ns != 0 && now_ns >= server->retry_ns) {
      shut_down(*server, true);
    }
  }
  if (quit_by_ns_ != 0 && now_ns >= quit_by_ns_) quit_by_ns_ = 0;
}

}  // namespace tranche::sim
