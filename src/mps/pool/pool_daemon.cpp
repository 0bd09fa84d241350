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

namespace tranche::mps {
namespace {

constexpr Duration kServerPatience = std::chrono::seconds(3);  // before SIGKILL
constexpr Duration kTurnPatience = std::chrono::seconds(3);    // for clients that are connecting; then without a turn

// Starting CUDA, creating a context, and the rest each have the deadline; the child exits if one takes too long.
constexpr int kStages = 2;

std::map<std::string, std::string> environment_of(const PoolSettings& settings, const grants::Paths& paths) {
  auto env = settings.binary.env;
  env[plan::kPipeVariable] = paths.pipe(settings.id);
  env[plan::kLogVariable] = paths.log(settings.id);
  env["CUDA_VISIBLE_DEVICES"] = join(settings.devices, ",");
  return env;
}

grants::Paths paths_at_home(const PoolSettings& settings) {
  const auto& home = settings.home;
  return home.host && !home.mps_root.empty() ? grants::Paths{home.mps_root} : settings.paths;
}

// Whether the properties that are shown are equal; all others change continuously.
bool looks_the_same(const Supervisor& a, const Supervisor& b) {
  return a.state == b.state && a.reason == b.reason && a.desired == b.desired && a.read_back == b.read_back &&
         a.turn == b.turn && a.servers == b.servers && a.restarts == b.restarts;
}

bool looks_the_same(const Proof& a, const Proof& b) {
  return a.state == b.state && a.reason == b.reason && a.trusted == b.trusted && a.step == b.step &&
         a.running == b.running;
}

}  // namespace

// MPS servers that have to exit: kills those that are left after a while. `on_gone` runs when the last one has exited.
// Loop thread.
class EndingServers {
 public:
  EndingServers(os::Loop& loop, std::function<void()> on_gone) : loop_(loop), on_gone_(std::move(on_gone)) {}
  EndingServers(const EndingServers&) = delete;
  EndingServers& operator=(const EndingServers&) = delete;

  // And sends it this signal; 0 = none.
  void watch(const os::ProcessRef& server, int signal) {
    auto process = os::Process::adopt(loop_, server, [this, pid = server.pid](os::ExitNote) { ended(pid); });
    if (!process) return;  // it has exited
    if (signal != 0) (void)(*process)->signal(signal);
    watched_[server.pid] = *std::move(process);
    if (timer_.running()) return;
    timer_.start(kServerPatience, [this] {
      for (const auto& [pid, each] : watched_) (void)each->signal(SIGKILL);
    });
  }
  bool none_left() const { return watched_.empty(); }

 private:
  void ended(pid_t pid) {
    watched_.erase(pid);
    if (!watched_.empty()) return;
    timer_.stop();
    on_gone_();
  }

  os::Loop& loop_;
  std::function<void()> on_gone_;
  std::map<pid_t, std::unique_ptr<os::Process>> watched_;
  os::Timer timer_{loop_};
};

// Carries out what the proof machine decides for one pool: runs the CUDA starts, and terminates clients, servers or the
// daemon when they fail. A CUDA start is `tranche probe` through the daemon's pipe, on one device of the pool after the
// other: a child process, because a start that hangs cannot be cancelled. A part of its pool's daemon. Loop thread.
class Prover {
 public:
  Prover(os::Loop& loop, PoolDaemon& pool) : loop_(loop), pool_(pool) {}
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;

  pid_t pid() const { return run_ ? run_->pid() : 0; }  // of the running CUDA start; 0 = none

  void act(const StartProof&) {
    turn_timer_.start(kTurnPatience, [this] { start(); });
    turn_.reset();
    turn_ = pool_.settings_.admission->take_turn([this] {
      if (!turn_timer_.running()) return;  // it started without a turn
      turn_timer_.stop();
      start();
    });
  }

  void act(const CancelProof&) {
    turn_timer_.stop();
    run_.reset();
    turn_.reset();
  }

  void act(const EndStep& action) {
    switch (action.step) {
      case Step::kClients:
        return pool_.end_clients(clients(), [this](const auto&) { pool_.feed(StepDone{}); });
      case Step::kServers:
        return end_servers();
      case Step::kDaemon:
        return pool_.feed(Replace{"new CUDA programs do not start, and ending its clients and servers did not help: " +
                                  pool_.proof_.reason});
      case Step::kNone:
        return;
    }
  }

 private:
  void start() {
    device_ = 0;
    const auto listed = pool_.clients_of_servers();
    std::erase_if(own_, [&](int pid) { return std::ranges::find(listed, pid) == listed.end(); });
    clients_ = clients().size();
    start_next();
  }

  void start_next() {
    const auto& devices = pool_.settings_.devices;
    os::Command command{.argv = pool_.settings_.proof_program, .env = pool_.environment_, .die_with_parent = true};
    for (const char* word : {"--json", "--seconds", "0", "--deadline"}) command.argv.push_back(word);
    command.argv.push_back(fmt::format("{:.3f}", std::chrono::duration<double>(deadline()).count()));
    if (device_ < devices.size()) command.env["CUDA_VISIBLE_DEVICES"] = devices[device_];
    run_ = std::make_unique<os::Run>(loop_, std::move(command), kStages * deadline(),
                                     [this](const Result<os::Ended>& end) { ended(end); });
    own_.insert(pid());
  }

  void ended(const Result<os::Ended>& ended) {
    run_.reset();
    ProbeEnded probe{.exit_code = -1, .timed_out = !ended, .output = {}, .clients = clients_};
    if (ended) {
      if (!ended->note.signalled) probe.exit_code = ended->note.code;
      probe.output = ended->output;
    } else if (ended.error().kind != Kind::kTimeout) {
      return finish({ProofVerdict::kInconclusive, "the CUDA start could not be tried: " + to_string(ended.error())});
    }
    const auto reading = read_proof(probe);
    const bool more = ++device_ < pool_.settings_.devices.size();
    if (reading.verdict == ProofVerdict::kPassed && more) return start_next();
    finish(reading);
  }

  void finish(const ProofReading& reading) {
    turn_.reset();
    pool_.feed(ProofEnded{reading, !clients().empty(), !pool_.servers().empty()});
  }

  std::vector<int> clients() const {
    auto pids = pool_.clients_of_servers();
    std::erase_if(pids, [this](int pid) { return own_.contains(pid); });
    return pids;
  }

  // Servers are children of the daemon, not ours; the next client makes the daemon start a new one.
  void end_servers() {
    for (const int pid : pool_.servers())
      if (const auto ref = os::process_ref(pid)) pool_.ending_servers_->watch(*ref, SIGTERM);
    if (pool_.ending_servers_->none_left()) pool_.feed(StepDone{});
  }

  Duration deadline() const { return pool_.settings_.proof.deadline; }

  os::Loop& loop_;
  PoolDaemon& pool_;
  os::Timer turn_timer_{loop_};
  ProofTurn turn_;
  std::size_t device_ = 0;   // of the pool, on which CUDA is started
  std::size_t clients_ = 0;  // of the pool, when the proof began
  std::unique_ptr<os::Run> run_;
  std::set<int> own_;  // CUDA starts; the servers may list one for a while after its end
};

Result<std::unique_ptr<PoolDaemon>> PoolDaemon::open(os::Loop& loop, PoolSettings settings,
                                                     std::function<void()> on_change) {
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

PoolDaemon::PoolDaemon(os::Loop& loop, PoolSettings settings, std::function<void()> on_change)
    : loop_(loop),
      settings_(std::move(settings)),
      on_change_(std::move(on_change)),
      environment_(environment_of(settings_, settings_.paths)),
      daemon_environment_(environment_at_home(settings_.home, environment_of(settings_, paths_at_home(settings_)))),
      sessions_(loop, {{settings_.binary.path}, environment_}),
      prover_(std::make_unique<Prover>(loop, *this)),
      ending_servers_(std::make_unique<EndingServers>(loop, [this] {
        feed(StepDone{});
        on_change_();
      })) {}

PoolDaemon::~PoolDaemon() = default;

void PoolDaemon::prove_every(Duration every) {
  if (settings_.proof_program.empty()) every = {};
  if (every == std::exchange(settings_.proof.every, every) || !proof_.serves) return;
  feed(PoolServes{});
}

pid_t PoolDaemon::proof_pid() const {
  return prover_->pid();
}

std::string_view PoolDaemon::state_name() const {
  return state_.state == State::kServing ? pool_word(proof_) : to_string(state_.state);
}

std::string PoolDaemon::reason() const {
  if (state_.state != State::kServing || proof_.trusted) return state_.reason;
  if (proof_.state != ProofState::kFailed)
    return "a CUDA start through the daemon is under way; it serves when that works";
  std::string text = "new CUDA programs do not start: " + proof_.reason;
  if (proof_.step != Step::kNone) text += fmt::format("; to repair it, its {} were ended", to_string(proof_.step));
  return text;
}

bool PoolDaemon::gone() const {
  return state_.state == State::kAbsent && !daemon_ && ending_servers_->none_left();
}

// Actions may raise events at once (a daemon that cannot be executed): these are queued.
void PoolDaemon::feed(AnyEvent event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  const Supervisor before = state_;
  const Proof proof_before = proof_;
  while (!events_.empty()) {
    const AnyEvent next = std::move(events_.front());
    events_.pop_front();
    std::visit([this](const auto& one) { carry_out(one); }, next);
  }
  stepping_ = false;
  arm_timer();
  if (!looks_the_same(before, state_) || !looks_the_same(proof_before, proof_)) on_change_();
}

void PoolDaemon::carry_out(const Event& event) {
  const State was = state_.state;
  const auto actions = step(state_, event, loop_.now(), settings_.supervisor);
  if (!state_.question_due) question_.reset();
  for (const auto& action : actions) std::visit([this](const auto& a) { act(a); }, action);
  if (state_.state != State::kServing) {
    if (was == State::kServing) settings_.admission->hold();
    abandon_next_limits();
  }
  inform_prover(was);
}

void PoolDaemon::carry_out(const ProofEvent& event) {
  const Step was = proof_.step;
  for (const auto& action : step(proof_, event, loop_.now(), settings_.proof))
    std::visit([this](const auto& a) { prover_->act(a); }, action);
  if (proof_.step != was && proof_.step != Step::kNone)
    log::error("pool.ended_to_mend",
               {{"pool", settings_.id}, {"what", to_string(proof_.step)}, {"why", proof_.reason}});
}

void PoolDaemon::inform_prover(State was) {
  const State is = state_.state;
  if (is != was && is == State::kServing) {
    feed(PoolServes{});
  } else if (is != was && is == State::kConfiguring && was == State::kServing) {
    feed(PoolLeft{PoolLeft::Why::kLimits});
  } else if (is != was && is != State::kConfiguring) {
    const bool same_daemon = state_.alive && !state_.dying && is != State::kStopping;
    feed(PoolLeft{same_daemon ? PoolLeft::Why::kSame : PoolLeft::Why::kDaemon});
  }
  feed(FaultHandled{std::ranges::find(state_.servers, "FAULT", &ServerSeen::status) != state_.servers.end()});
}

void PoolDaemon::arm_timer() {
  timer_.stop();
  auto at = wake_at(state_);
  if (const auto proof_at = wake_at(proof_, settings_.proof); proof_at)
    at = std::min(at.value_or(*proof_at), *proof_at);
  if (!at) return;
  timer_.start(std::max(Duration{}, *at - loop_.now()), [this] {
    feed(Tick{});
    feed(ProofTick{});
  });
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
  on_change_();
}

// The prover doubts after events that preceded a wedge in practice: faults, exits of servers. Not after the death of
// a client: the keeper makes it harmless, and a CUDA start while a dead client's work still runs is not
// (docs/internals/evidence/deaths.md).
void PoolDaemon::act_on(const LogLine& line) {
  switch (line.what) {
    case LogWhat::kNewClient:
      return feed(Look{settings_.supervisor.health_every});
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
      return feed(Doubt{});
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
  const Status done = adopted && !*adopted ? spawn() : Status();
  feed(Spawned{done ? adopted : std::unexpected(done.error())});
}

Result<bool> PoolDaemon::adopt() {
  TRY(const auto adoptable, find_adoptable(pipe(), {settings_.binary.path, settings_.home, daemon_environment_}));
  if (!adoptable) return false;
  auto process = os::Process::adopt(loop_, *adoptable, [this](os::ExitNote note) { daemon_ended(note); });
  if (!process && process.error().kind == Kind::kNotFound) return false;  // it exited in between
  if (!process) return std::unexpected(within(process.error(), "cannot watch the daemon from before"));
  daemon_ = *std::move(process);
  start_notes_.clear();
  return true;
}

Status PoolDaemon::spawn() {
  const bool servers_of_users = ::geteuid() == 0 && !settings_.multiuser;
  TRY(start_notes_, check_before_start(pipe(), settings_.paths.endpoints(settings_.id), servers_of_users));
  TRY_STATUS(remove_stale_sockets(pipe()));
  // In the foreground the daemon reads commands from stdin and, on some drivers, exits with it. The daemon itself holds
  // the writing end (as descriptor 3), so that stdin neither ends nor blocks if this program exits.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot start the daemon", "pipe2");
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

void PoolDaemon::daemon_ended(const os::ExitNote& note) {
  log_->read();  // servers that started since the last look
  daemon_.reset();
  question_.reset();
  ping_.reset();
  for (const auto& [pid, server] : std::exchange(known_servers_, {})) ending_servers_->watch(server, 0);
  feed(DaemonExited{os::to_string(note)});
}

void PoolDaemon::ask(std::unique_ptr<Question>& open, DaemonQuestion what, Heard done) {
  auto input = what.input();
  open = sessions_.ask(std::move(input), settings_.supervisor.question_deadline,
                       [=, this, &open, done = std::move(done)](const Result<std::string>& reply) mutable {
                         if (!reply) return done(std::unexpected(reply.error()));
                         if (auto answered = what.heard(*reply)) return done(*std::move(answered));
                         ask(open, std::move(what), std::move(done));
                       });
}

// The daemon serves one connection at a time. Our own CUDA start does not use a relay, so while it waits for a stuck
// server, the daemon answers no other connection. That is a finding about the server, and the start's deadline ends it.
void PoolDaemon::act(const Ask& action) {
  ask(question_, {action, servers()},
      [=, this, asked = os::boot_ticks(), was_held = proof_pid() != 0](Result<Answered> answered) {
        // The start may have ended a moment ago: the daemon had no time to answer since.
        if (!answered && answered.error().kind == Kind::kTimeout && (was_held || proof_pid() != 0)) return act(action);
        if (!answered) return feed(QuestionFailed{answered.error()});
        heard_servers(asked, answered->servers);
        for (auto& server : answered->servers) {
          remember(server.pid);
          // The limits changed during the query: the values read do not describe the present ones.
          if (action.limits != limits_to_set(state_)) server.limits.reset();
        }
        feed(*std::move(answered));
      });
}

void PoolDaemon::act(const PingDaemon&) {
  if (proof_pid() != 0) return feed(PingSkipped{});
  settings_.logs->rest();  // the daemon logs the connection and its end
  ping_ = std::make_unique<Ping>(loop_, pipe() + "/control", settings_.supervisor.ping_deadline,
                                 [this](const Result<bool>& greeted) {
                                   const auto ended = std::move(ping_);
                                   if (!greeted && proof_pid() != 0) return feed(PingSkipped{});
                                   feed(Pinged{greeted ? Status() : std::unexpected(greeted.error())});
                                 });
}

void PoolDaemon::act(const OpenEndpoints&) {
  // An endpoint that cannot be linked blocks one grant, not the pool: reported beside the state.
  if (const auto opened = settings_.admission->serve(); !opened) state_.reason = to_string(opened.error());
}

void PoolDaemon::act(const Quit& action) {
  question_ = sessions_.ask(quit_daemon(action.patience), action.patience,
                            [](const Result<std::string>&) {});  // its exit is the answer
}

void PoolDaemon::act(const KillDaemon&) {
  if (daemon_) (void)daemon_->signal(SIGKILL);
}

void PoolDaemon::remember(pid_t server) {
  if (known_servers_.contains(server)) return;
  if (const auto ref = os::process_ref(server)) known_servers_.emplace(server, *ref);
}

}  // namespace tranche::mps
