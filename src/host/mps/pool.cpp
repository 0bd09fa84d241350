#include "host/mps/pool.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "host/mps/launch.h"
#include "host/mps/leftover.h"
#include "mps/client_limits.h"
#include "mps/control_text.h"
#include "mps/replies.h"

namespace tranche::host {
namespace {

constexpr Duration kOrphanPatience = std::chrono::seconds(3);

std::map<std::string, std::string> environment_of(const PoolSettings& settings, const PoolDirs& dirs) {
  auto env = settings.binary.env;
  env[mps::kPipeVariable] = dirs.pipe();
  env[mps::kLogVariable] = dirs.log().path();
  env["CUDA_VISIBLE_DEVICES"] = join(settings.devices, ",");
  return env;
}

// What people see of a supervisor: everything else changes all the time.
bool looks_the_same(const mps::Supervisor& a, const mps::Supervisor& b) {
  return a.state == b.state && a.reason == b.reason && a.desired == b.desired && a.read_back == b.read_back &&
         a.servers == b.servers && a.restarts == b.restarts;
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::open(Loop& loop, PoolSettings settings, Callbacks callbacks) {
  TRY(PoolDirs dirs, PoolDirs::make(settings.paths, settings.id));
  std::unique_ptr<Pool> pool(new Pool(loop, std::move(settings), std::move(callbacks), std::move(dirs)));
  Pool* self = pool.get();
  TRY(pool->log_, LogTail::open(loop, self->dirs_.log(), "control.log",
                                [self](const std::string& line) { self->read_log_line(line); }));
  return pool;
}

Pool::Pool(Loop& loop, PoolSettings settings, Callbacks callbacks, PoolDirs dirs)
    : loop_(loop),
      settings_(std::move(settings)),
      callbacks_(std::move(callbacks)),
      dirs_(std::move(dirs)),
      environment_(environment_of(settings_, dirs_)),
      orphans_(loop, kOrphanPatience, [this] { tell_change(state_); }) {
  state_.jitter = settings_.seed;
}

Pool::~Pool() {
  loop_.cancel(timer_);
}

void Pool::want(const mps::DaemonLimits& limits) {
  if (state_.state != mps::State::kAbsent) {
    return feed(state_.state == mps::State::kStopping ? mps::Event(mps::Start{limits})
                                                      : mps::Event(mps::DesiredChanged{limits}));
  }
  const auto adopted = adopt_leftover();
  // A daemon that is not ours: starting fails with the same words, and is tried again.
  feed(mps::Start{limits, adopted.value_or(false)});
}

void Pool::stop() {
  feed(mps::StopAsked{});
}
void Pool::retry() {
  feed(mps::Retry{});
}

bool Pool::gone() const {
  return state_.state == mps::State::kAbsent && !daemon_ && orphans_.none_left();
}

// Actions may cause events at once (a daemon that cannot be executed): they wait for their turn.
void Pool::feed(mps::Event event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  const mps::Supervisor before = state_;
  while (!events_.empty()) {
    const mps::Event next = std::move(events_.front());
    events_.pop_front();
    auto stepped = mps::step(std::move(state_), next, loop_.now(), settings_.supervisor);
    state_ = std::move(stepped.next);
    if (state_.question == 0) question_.reset();
    for (const auto& action : stepped.actions) std::visit([this](const auto& a) { act(a); }, action);
  }
  stepping_ = false;
  arm_timer();
  if (!looks_the_same(before, state_)) tell_change(before);
}

void Pool::arm_timer() {
  loop_.cancel(std::exchange(timer_, 0));
  const auto at = mps::wake_at(state_);
  if (!at) return;
  timer_ = loop_.after(std::max(Duration{}, *at - loop_.now()), [this] {
    timer_ = 0;
    feed(mps::Tick{});
  });
}

void Pool::tell_change(const mps::Supervisor& before) {
  if (callbacks_.on_change) callbacks_.on_change(before, state_);
}

void Pool::act(const mps::SpawnDaemon&) {
  const auto adopted = adopt_leftover();
  const Status done = !adopted ? Status(std::unexpected(adopted.error())) : *adopted ? Status() : spawn();
  if (done) return feed(mps::Spawned{});
  feed(mps::SpawnFailed{done.error()});
}

Result<bool> Pool::adopt_leftover() {
  TRY(const auto leftover, find_leftover(dirs_, environment_));
  if (!leftover) return false;
  auto process = Process::adopt(loop_, *leftover, [this](ExitNote note) { daemon_ended(note); });
  if (!process && process.error().kind == Kind::kNotFound) return false;  // it ended in between
  if (!process) return std::unexpected(within(process.error(), "cannot watch the daemon from before"));
  daemon_ = *std::move(process);
  return true;
}

Status Pool::spawn() {
  TRY_STATUS(dirs_.remove_stale_sockets());
  // In the foreground the daemon reads commands from stdin and, on some drivers, ends with it. It holds the writing end
  // itself (as descriptor 3), so that stdin neither ends nor blocks, whatever becomes of us.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return std::unexpected(error_from_errno(errno, "cannot start the daemon", "pipe2"));
  const Fd reading(ends[0]);
  const Fd writing(ends[1]);
  Launch what{.argv = {settings_.binary.path, "-f"}, .env = environment_};
  if (settings_.multiuser) what.argv.push_back("-M");
  what.input = reading.get();
  what.output = log_->fd();
  what.kept = writing.get();
  TRY(daemon_, launch(loop_, what, [this](ExitNote note) { daemon_ended(note); }));
  return {};
}

void Pool::daemon_ended(const ExitNote& note) {
  log_->read();  // servers that started since the last look
  daemon_.reset();
  question_.reset();
  orphans_.daemon_ended();
  feed(mps::DaemonExited{to_string(note)});
}

void Pool::ask_session(mps::QuestionId id, const std::vector<std::string>& commands, Duration deadline,
                       std::function<void(const std::string&)> read) {
  question_ = ask(loop_, target(), mps::command::as_input(commands), deadline,
                  [this, id, read = std::move(read)](const Result<std::string>& reply) {
                    if (!reply) return feed(mps::QuestionFailed{id, reply.error()});
                    read(*reply);
                  });
}

void Pool::act(const mps::Ask& action) {
  ask_session(action.id, mps::command::health_session(), settings_.supervisor.question_deadline,
              [this, id = action.id](const std::string& reply) {
                auto servers = mps::parse_health_session(reply);
                if (!servers) return feed(mps::QuestionFailed{id, servers.error()});
                for (const int pid : *servers) orphans_.remember(pid);
                ask_next_server(id, *std::move(servers), {});
              });
}

void Pool::ask_next_server(mps::QuestionId id, std::vector<int> left, std::vector<mps::ServerSeen> seen) {
  if (left.empty()) return feed(mps::Answered{id, std::move(seen)});
  const int pid = left.front();
  left.erase(left.begin());
  ask_session(id, mps::command::server_session(pid), settings_.supervisor.question_deadline,
              [this, id, pid, left = std::move(left), seen = std::move(seen)](const std::string& reply) {
                auto all = seen;
                const auto server = mps::parse_server_session(reply);
                if (server) all.push_back({pid, server->status, server->clients});
                // One that ended in between is no fault of the daemon's.
                if (!server && server.error().kind != Kind::kNotFound) all.push_back({pid, "", {}});
                ask_next_server(id, left, std::move(all));
              });
}

void Pool::act(const mps::ApplyLimits& action) {
  ask_session(action.id, mps::command::apply_session(action.limits), settings_.supervisor.question_deadline,
              [this, action](const std::string& reply) {
                const auto applied = mps::parse_apply_session(action.limits, reply);
                if (!applied) return feed(mps::QuestionFailed{action.id, applied.error()});
                feed(mps::LimitsApplied{action.id});
              });
}

void Pool::act(const mps::ReadLimits& action) {
  ask_session(action.id, mps::command::read_session(action.limits), settings_.supervisor.question_deadline,
              [this, action](const std::string& reply) {
                auto values = mps::parse_read_session(action.limits, reply);
                if (!values) return feed(mps::QuestionFailed{action.id, values.error()});
                feed(mps::LimitsRead{action.id, *std::move(values)});
              });
}

void Pool::act(const mps::OpenDoors&) {
  // A door that cannot be linked keeps one grant out, not the pool: said beside the state.
  if (const auto linked = dirs_.relink_doors(); !linked) state_.reason = to_string(linked.error());
}

void Pool::act(const mps::Quit& action) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(action.patience).count();
  ask_session(action.id, {mps::command::quit(static_cast<int>(seconds))}, action.patience,
              [](const std::string&) {});  // the daemon's exit is the answer
}

void Pool::act(const mps::SignalTerm&) {
  if (daemon_) (void)daemon_->signal(SIGTERM);
}
void Pool::act(const mps::SignalKill&) {
  if (daemon_) (void)daemon_->signal(SIGKILL);
}

void Pool::read_log_line(const std::string& line) {
  const auto parsed = mps::parse_log_line(line);
  if (!parsed || parsed->what == mps::LogWhat::kOther) return;
  switch (parsed->what) {
    case mps::LogWhat::kNewClient:
      ++counters_.clients;
      break;
    case mps::LogWhat::kClientRefused:
      ++counters_.clients_refused;
      break;
    case mps::LogWhat::kFatalCulprit:
      ++counters_.fatal_faults;
      break;
    case mps::LogWhat::kFatalVictim:
      ++counters_.fault_victims;
      break;
    case mps::LogWhat::kServerStarting:
      ++counters_.servers;
      orphans_.remember(parsed->pid);
      break;
    default:
      break;
  }
  if (callbacks_.on_log) callbacks_.on_log(*parsed);
}

}  // namespace tranche::host
