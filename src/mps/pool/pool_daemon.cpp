#include "mps/pool/pool_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "mps/daemon/adoption.h"
#include "os/clock/clock.h"
#include "os/log/log.h"
#include "os/process/threads.h"
#include "plan/client_limits.h"

namespace tranche::mps {
namespace {

constexpr Duration kOrphanPatience = std::chrono::seconds(3);

std::map<std::string, std::string> environment_of(const PoolSettings& settings) {
  auto env = settings.binary.env;
  env[plan::kPipeVariable] = settings.paths.pipe(settings.id);
  env[plan::kLogVariable] = settings.paths.log(settings.id);
  env["CUDA_VISIBLE_DEVICES"] = join(settings.devices, ",");
  return env;
}

std::map<std::string, std::string> daemon_environment_of(const PoolSettings& settings,
                                                         const std::map<std::string, std::string>& env) {
  auto there = environment_at_home(settings.home, env);
  if (!settings.home.host || settings.home.mps_root.empty()) return there;
  const grants::Paths paths{settings.home.mps_root};
  there[plan::kPipeVariable] = paths.pipe(settings.id);
  there[plan::kLogVariable] = paths.log(settings.id);
  return there;
}

// Whether the properties that are shown are equal; all others change continuously.
bool looks_the_same(const Supervisor& a, const Supervisor& b) {
  return a.state == b.state && a.reason == b.reason && a.desired == b.desired && a.read_back == b.read_back &&
         a.turn == b.turn && a.servers == b.servers && a.restarts == b.restarts;
}

}  // namespace

Result<std::unique_ptr<PoolDaemon>> PoolDaemon::open(os::Loop& loop, PoolSettings settings, OnChange on_change) {
  TRY_STATUS(make_pool_dirs(settings.paths, settings.id));
  TRY(const auto log, os::Dir::open(settings.paths.log(settings.id)));
  if (settings.proof_program.empty()) settings.proof.every = {};
  static Admission none;
  if (settings.admission == nullptr) settings.admission = &none;
  if (!settings.endings) settings.endings = std::make_shared<Endings>(loop);
  if (!settings.logs) {
    TRY(settings.logs, LogWatch::open(loop));
  }
  std::unique_ptr<PoolDaemon> pool(new PoolDaemon(loop, std::move(settings), std::move(on_change)));
  PoolDaemon* self = pool.get();
  TRY(pool->log_, LogTail::open(self->settings_.logs, log, "control.log",
                                [self](const std::string& line) { self->read_log_line(line); }));
  return pool;
}

PoolDaemon::PoolDaemon(os::Loop& loop, PoolSettings settings, OnChange on_change)
    : loop_(loop),
      settings_(std::move(settings)),
      on_change_(std::move(on_change)),
      environment_(environment_of(settings_)),
      daemon_environment_(daemon_environment_of(settings_, environment_)),
      sessions_(loop, {{settings_.binary.path}, environment_}),
      prover_(loop, settings_.proof, *this),
      orphans_(loop, kOrphanPatience, [this] { report_change(state_); }) {
  state_.jitter = settings_.seed;
}

std::string_view PoolDaemon::state_name() const {
  return state_.state == State::kServing ? pool_word(prover_.state()) : to_string(state_.state);
}

std::string PoolDaemon::reason() const {
  const auto& proof = prover_.state();
  if (state_.state != State::kServing || proof.trusted) return state_.reason;
  if (proof.state != ProofState::kFailed)
    return "a CUDA start through the daemon is under way; it serves when that works";
  std::string text = "new CUDA programs do not start: " + proof.reason;
  if (proof.step != Step::kNone) text += fmt::format("; to repair it, its {} were ended", to_string(proof.step));
  return text;
}

bool PoolDaemon::gone() const {
  return state_.state == State::kAbsent && !daemon_ && orphans_.none_left();
}

// Actions may raise events at once (a daemon that cannot be executed): these are queued.
void PoolDaemon::feed(Event event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  const Supervisor before = state_;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    const State was = state_.state;
    const auto actions = step(state_, next, loop_.now(), settings_.supervisor);
    if (state_.question == 0) question_.reset();
    for (const auto& action : actions) std::visit([this](const auto& a) { act(a); }, action);
    if (state_.state != State::kServing) abandon_next_limits();
    inform_prover(was);
  }
  stepping_ = false;
  arm_timer();
  if (!looks_the_same(before, state_)) report_change(before);
}

void PoolDaemon::inform_prover(State was) {
  const State is = state_.state;
  if (is != was && is == State::kServing) {
    prover_.feed(PoolServes{});
  } else if (is != was && is == State::kConfiguring && was == State::kServing) {
    prover_.feed(PoolLeft{PoolLeft::Why::kLimits});
  } else if (is != was && is != State::kConfiguring) {
    const bool same_daemon = state_.alive && !state_.dying && is != State::kStopping;
    prover_.feed(PoolLeft{same_daemon ? PoolLeft::Why::kSame : PoolLeft::Why::kDaemon});
  }
  const bool handled = std::ranges::any_of(state_.servers, [](const ServerSeen& one) { return one.status == "FAULT"; });
  if (std::exchange(fault_handled_, handled) != handled) prover_.feed(FaultHandled{handled});
}

void PoolDaemon::arm_timer() {
  timer_.stop();
  const auto at = wake_at(state_);
  if (!at) return;
  timer_.start(std::max(Duration{}, *at - loop_.now()), [this] { feed(Tick{}); });
}

void PoolDaemon::proof_changed(const Proof& before) {
  const auto& proof = prover_.state();
  if (proof.step != before.step && proof.step != Step::kNone)
    log::error("pool.ended_to_mend", {{"pool", settings_.id}, {"what", to_string(proof.step)}, {"why", proof.reason}});
  report_change(state_);
}

void PoolDaemon::read_log_line(const std::string& line) {
  const auto parsed = parse_log_line(line);
  if (!parsed || parsed->what == LogWhat::kOther) return;
  const auto grant_of = [this](int pid) {
    const auto* grant = settings_.admission->grant_of(pid);
    return grant == nullptr ? std::string() : *grant;
  };
  const auto lives = [](int pid) { return os::look_at_living_thread(pid, [](const auto&, pid_t) { return false; }); };
  const bool is_fault = faults_.read(*parsed, loop_.wall_now(), {grant_of, lives});
  act_on(*parsed);
  settings_.admission->read_log(*parsed);
  if (!is_fault) return;
  const Fault& fault = faults_.last().back();
  log::error("mps.fault", {{"pool", settings_.id},
                           {"kind", to_string(fault.kind)},
                           {"culprit_pid", fault.culprit},
                           {"server", fault.server}});
  report_change(state_);
}

// The prover doubts after events that preceded a wedge in practice: faults, exits of servers. Not after the death of a
// client: the keeper makes it harmless, and a CUDA start while a dead client's work still runs is not
// (docs/internals/evidence/deaths.md).
void PoolDaemon::act_on(const LogLine& line) {
  switch (line.what) {
    case LogWhat::kNewClient:
      return feed(ClientLogged{});
    case LogWhat::kServerStarting:
      remember(line.pid);
      return feed(ServerLogged{line.pid, "INITIALIZING"});
    case LogWhat::kServerReady:
      return feed(ServerLogged{line.pid, "ACTIVE"});
    case LogWhat::kServerExited:
      feed(ServerLogged{line.pid, ""});
      return doubt();
    case LogWhat::kFatalHandled:
      return feed(ServerLogged{line.writer, "FAULT"});
    case LogWhat::kFatalCulprit:
    case LogWhat::kFatalException:
      return prover_.feed(Doubt{});
    case LogWhat::kClientRefused:
      return log::warning("mps.client_refused",
                          {{"pool", settings_.id}, {"pid", line.pid}, {"cuda_error", line.number}});
    case LogWhat::kFatalVictim:
      return log::warning("mps.fault_teardown", {{"pool", settings_.id}, {"pid", line.pid}});
    default:
      return;
  }
}

// --- the supervisor's actions ---------------------------------------------------------------------------------------

void PoolDaemon::act(const SpawnDaemon&) {
  const auto adopted = adopt();
  const Status done = !adopted ? Status(std::unexpected(adopted.error())) : *adopted ? Status() : spawn();
  if (done) return feed(Spawned{*adopted});
  feed(SpawnFailed{done.error()});
}

Result<bool> PoolDaemon::adopt() {
  TRY(const auto adoptable, find_adoptable(pipe(), {settings_.binary.path, settings_.home, daemon_environment_}));
  if (!adoptable) return false;
  auto process = os::Process::adopt(loop_, adoptable->ref, [this](os::ExitNote note) { daemon_ended(note); });
  if (!process && process.error().kind == Kind::kNotFound) return false;  // it exited in between
  if (!process) return std::unexpected(within(process.error(), "cannot watch the daemon from before"));
  daemon_ = *std::move(process);
  start_notes_.clear();
  if (!adoptable->note.empty()) start_notes_.push_back(adoptable->note);
  return true;
}

Status PoolDaemon::spawn() {
  const bool servers_of_users = ::geteuid() == 0 && !settings_.multiuser;
  TRY(start_notes_, check_before_start(pipe(), settings_.paths.endpoints(settings_.id), servers_of_users));
  TRY_STATUS(remove_stale_sockets(pipe()));
  // In the foreground the daemon reads commands from stdin and, on some drivers, exits with it. The daemon itself holds
  // the writing end (as descriptor 3), so that stdin neither ends nor blocks if this program exits.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return std::unexpected(error_from_errno(errno, "cannot start the daemon", "pipe2"));
  const os::Fd reading(ends[0]);
  const os::Fd writing(ends[1]);
  os::Command what{.argv = {program_at_home(settings_.home, settings_.binary.path)}, .env = daemon_environment_};
  const auto options = daemon_options(settings_.multiuser);
  what.argv.insert(what.argv.end(), options.begin(), options.end());
  what.input = reading.get();
  what.output = log_->fd();
  what.kept = writing.get();
  TRY(daemon_,
      launch_at_home(loop_, settings_.home, settings_.id, what, [this](os::ExitNote note) { daemon_ended(note); }));
  return {};
}

// The daemon serves one connection at a time. Our own CUDA start does not use a relay, so while it waits for a stuck
// server, the daemon answers no other connection. That is a finding about the server, and the start's deadline ends it.
bool PoolDaemon::proof_holds_daemon() const {
  return prover_.pid() != 0;
}

void PoolDaemon::daemon_ended(const os::ExitNote& note) {
  log_->read();  // servers that started since the last look
  daemon_.reset();
  question_.reset();
  ping_.reset();
  for (const auto& [pid, server] : std::exchange(known_servers_, {})) orphans_.watch(server, 0);
  feed(DaemonExited{os::to_string(note)});
}

void PoolDaemon::run(QuestionId id, const std::string& input, Duration deadline,
                     std::function<void(const std::string&)> read) {
  question_ = sessions_.ask({.input = input,
                             .deadline = deadline,
                             .on_begun =
                                 [this] {
                                   if (asked_ == 0) asked_ = os::boot_ticks();
                                   begun_while_held_ = proof_holds_daemon();
                                 }},
                            [this, id, input, deadline, read](const Result<std::string>& reply) {
                              if (reply) return read(*reply);
                              // The start may have ended a moment ago: the daemon had no time to answer since.
                              if (reply.error().kind == Kind::kTimeout && (begun_while_held_ || proof_holds_daemon()))
                                return run(id, input, deadline, read);
                              feed(QuestionFailed{id, reply.error()});
                            });
}

void PoolDaemon::converse(QuestionId id, Exchange exchange) {
  run(id, exchange.input, settings_.supervisor.question_deadline,
      [this, id, then = std::move(exchange.then)](const std::string& reply) {
        auto onward = then(reply);
        if (auto* more = std::get_if<Exchange>(&onward)) return converse(id, std::move(*more));
        auto& event = std::get<Event>(onward);
        if (auto* answered = std::get_if<Answered>(&event)) {
          heard_servers(asked_, answered->servers);
          for (auto& server : answered->servers) {
            remember(server.pid);
            // The limits changed during the query: the values read do not describe the present ones.
            if (looking_for_ != limits_to_set(state_)) server.limits.reset();
          }
        }
        feed(std::move(event));
      });
}

void PoolDaemon::act(const PingDaemon&) {
  if (sessions_.urgent() || proof_holds_daemon()) return feed(PingSkipped{});
  settings_.logs->rest();  // the daemon logs the connection and its end
  ping_ = std::make_unique<Ping>(loop_, pipe() + "/control", settings_.supervisor.ping_deadline,
                                 [this](const Result<bool>& greeted) {
                                   const auto ended = std::move(ping_);
                                   if (greeted) return feed(Pinged{});
                                   if (proof_holds_daemon()) return feed(PingSkipped{});
                                   feed(PingFailed{greeted.error()});
                                 });
}

void PoolDaemon::act(const OpenEndpoints&) {
  // An endpoint that cannot be linked blocks one grant, not the pool: reported beside the state.
  if (const auto opened = settings_.admission->serve(); !opened) state_.reason = to_string(opened.error());
}

void PoolDaemon::act(const Quit& action) {
  run(action.id, quit_daemon(action.patience), action.patience, [](const std::string&) {});  // its exit is the answer
}

void PoolDaemon::act(const SignalDaemon& action) {
  if (daemon_) (void)daemon_->signal(action.kill ? SIGKILL : SIGTERM);
}

void PoolDaemon::remember(pid_t server) {
  if (known_servers_.contains(server)) return;
  if (const auto ref = os::process_ref(server)) known_servers_.emplace(server, *ref);
}

void EndingServers::watch(const os::ProcessRef& server, int signal) {
  auto process = os::Process::adopt(loop_, server, [this, pid = server.pid](os::ExitNote) { ended(pid); });
  if (!process) return;  // it has exited
  if (signal != 0) (void)(*process)->signal(signal);
  watched_[server.pid] = *std::move(process);
  if (timer_.running()) return;
  timer_.start(patience_, [this] {
    for (const auto& [pid, each] : watched_) (void)each->signal(SIGKILL);
  });
}

void EndingServers::ended(pid_t pid) {
  watched_.erase(pid);
  if (!watched_.empty()) return;
  timer_.stop();
  on_gone_();
}

}  // namespace tranche::mps
