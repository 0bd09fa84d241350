// Pool's actions: start its daemon, query it, stop it.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "mps/daemon/adoption.h"
#include "mps/daemon/start_checks.h"
#include "mps/pool/pool.h"
#include "os/clock/clock.h"

namespace tranche::host {

void Pool::act(const mps::SpawnDaemon&) {
  const auto adopted = adopt_leftover();
  const Status done = !adopted ? Status(std::unexpected(adopted.error())) : *adopted ? Status() : spawn();
  if (done) return feed(mps::Spawned{});
  feed(mps::SpawnFailed{done.error()});
}

Result<bool> Pool::adopt_leftover() {
  TRY(const auto leftover, find_leftover(dirs_, {settings_.binary.path, settings_.home, daemon_environment_}));
  if (!leftover) return false;
  auto process = Process::adopt(loop_, leftover->ref, [this](ExitNote note) { daemon_ended(note); });
  if (!process && process.error().kind == Kind::kNotFound) return false;  // it exited in between
  if (!process) return std::unexpected(within(process.error(), "cannot watch the daemon from before"));
  daemon_ = *std::move(process);
  start_notes_.clear();
  if (!leftover->note.empty()) start_notes_.push_back(leftover->note);
  return true;
}

Status Pool::spawn() {
  const bool servers_of_users = ::geteuid() == 0 && !settings_.multiuser;
  TRY(start_notes_, check_before_start(dirs_.pipe(), dirs_.endpoints(), servers_of_users));
  TRY_STATUS(dirs_.remove_stale_sockets());
  TRY_STATUS(dirs_.remove_stale_server(mps::v3::kServer));  // the last one may have had either tier
  // In the foreground the daemon reads commands from stdin and, on some drivers, exits with it. The daemon itself holds
  // the writing end (as descriptor 3), so that stdin neither ends nor blocks if this program exits.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return std::unexpected(error_from_errno(errno, "cannot start the daemon", "pipe2"));
  const Fd reading(ends[0]);
  const Fd writing(ends[1]);
  Command what{.argv = {program_at_home(settings_.home, settings_.binary.path)}, .env = daemon_environment_};
  const auto options = dialect_.daemon_options(settings_.multiuser);
  what.argv.insert(what.argv.end(), options.begin(), options.end());
  what.input = reading.get();
  what.output = log_->fd();
  what.kept = writing.get();
  TRY(daemon_,
      launch_at_home(loop_, settings_.home, settings_.id, what, [this](ExitNote note) { daemon_ended(note); }));
  return {};
}

// The daemon serves one connection at a time. Our own CUDA start does not use a relay, so while it waits for a stuck
// server, the daemon answers no other connection. That is a finding about the server, and the start's deadline ends it.
bool Pool::proof_holds_daemon() const {
  return prover_.pid() != 0;
}

void Pool::daemon_ended(const ExitNote& note) {
  log_->read();  // servers that started since the last look
  daemon_.reset();
  question_.reset();
  ping_.reset();
  orphans_.daemon_ended();
  feed(mps::DaemonExited{to_string(note)});
}

void Pool::run(mps::QuestionId id, const mps::Run& what, Duration deadline,
               std::function<void(const std::string&)> read) {
  if (!sessions_.idle()) feed(mps::QuestionWaits{id});
  ControlTarget whom = target();
  whom.words = what.words;
  question_ = sessions_.ask({.target = std::move(whom),
                             .input = what.input,
                             .deadline = deadline,
                             .on_begun =
                                 [this, id] {
                                   if (asked_ == 0) asked_ = boot_ticks();
                                   feed(mps::QuestionBegun{id});
                                 }},
                            [this, id, what, deadline, read](const Result<std::string>& reply) {
                              if (reply) return read(*reply);
                              if (reply.error().kind == Kind::kTimeout && proof_holds_daemon()) {
                                feed(mps::QuestionWaits{id});
                                return run(id, what, deadline, read);
                              }
                              feed(mps::QuestionFailed{id, reply.error()});
                            });
}

void Pool::converse(mps::QuestionId id, mps::Exchange exchange) {
  run(id, exchange.run, settings_.supervisor.question_deadline,
      [this, id, then = std::move(exchange.then)](const std::string& reply) {
        auto onward = then(reply);
        if (auto* more = std::get_if<mps::Exchange>(&onward)) return converse(id, std::move(*more));
        auto& event = std::get<mps::Event>(onward);
        if (auto* answered = std::get_if<mps::Answered>(&event)) {
          heard_servers(asked_, answered->servers);
          // A namespace that was removed during the query is not missing.
          if (looking_for_ != mps::told(state_)) answered->missing.clear();
          for (auto& server : answered->servers) {
            orphans_.remember(server.pid);
            // The limits changed during the query: the values read do not describe the present ones.
            if (looking_for_ != mps::told(state_)) server.limits.reset();
          }
        }
        feed(std::move(event));
      });
}

void Pool::act(const mps::Ask& action) {
  looking_for_ = mps::told(state_);
  asked_ = 0;
  converse(action.id, dialect_.ask(action.id, looking_for_));
}
void Pool::act(const mps::ApplyLimits& action) {
  converse(action.id, dialect_.apply(action));
}
void Pool::act(const mps::ReadLimits& action) {
  converse(action.id, dialect_.read(action));
}
void Pool::act(const mps::ApplyServerLimits& action) {
  converse(action.id, dialect_.apply_server(action));
}

void Pool::act(const mps::Ping&) {
  if (sessions_.urgent() || proof_holds_daemon()) return feed(mps::PingSkipped{});
  settings_.logs->rest();  // the daemon logs the connection and its end
  ping_ = std::make_unique<Ping>(loop_, dirs_.control_socket(), settings_.supervisor.ping_deadline,
                                 [this](const Status& greeted) {
                                   const auto ended = std::move(ping_);
                                   if (greeted) return feed(mps::Pinged{});
                                   if (proof_holds_daemon()) return feed(mps::PingSkipped{});
                                   feed(mps::PingFailed{greeted.error()});
                                 });
}

void Pool::act(const mps::OpenEndpoints&) {
  // An endpoint that cannot be linked blocks one grant, not the pool: reported beside the state.
  const auto opened = settings_.open_endpoints ? settings_.open_endpoints() : dirs_.relink_endpoints();
  if (!opened) state_.reason = to_string(opened.error());
}

void Pool::act(const mps::Quit& action) {
  run(action.id, dialect_.quit(action.patience), action.patience, [](const std::string&) {});  // its exit is the answer
}

void Pool::act(const mps::SignalTerm&) {
  if (daemon_) (void)daemon_->signal(SIGTERM);
}
void Pool::act(const mps::SignalKill&) {
  if (daemon_) (void)daemon_->signal(SIGKILL);
}

}  // namespace tranche::host
