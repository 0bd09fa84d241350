#include "mps/pool/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "mps/limits/client_limits.h"
#include "os/clock/clock.h"

namespace tranche::host {
namespace {

constexpr Duration kOrphanPatience = std::chrono::seconds(3);
constexpr Duration kClientQuestion = std::chrono::seconds(1);
constexpr std::size_t kMostEndedRemembered = 256;

std::map<std::string, std::string> environment_of(const PoolSettings& settings, const PoolDirs& dirs) {
  auto env = settings.binary.env;
  env[mps::kPipeVariable] = dirs.pipe();
  env[mps::kLogVariable] = dirs.log().path();
  env["CUDA_VISIBLE_DEVICES"] = join(settings.devices, ",");
  return env;
}

std::map<std::string, std::string> daemon_environment_of(const PoolSettings& settings,
                                                         const std::map<std::string, std::string>& env) {
  auto there = environment_at_home(settings.home, env);
  if (!settings.home.host || settings.home.mps_root.empty()) return there;
  const allocate::Paths paths{settings.home.mps_root};
  there[mps::kPipeVariable] = paths.pipe(settings.id);
  there[mps::kLogVariable] = paths.log(settings.id);
  return there;
}

// Whether the properties that are shown are equal; all others change continuously.
bool looks_the_same(const mps::Supervisor& a, const mps::Supervisor& b) {
  return a.state == b.state && a.reason == b.reason && a.desired == b.desired && a.read_back == b.read_back &&
         a.turn == b.turn && a.servers == b.servers && a.restarts == b.restarts;
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::open(Loop& loop, PoolSettings settings, Callbacks callbacks) {
  TRY(PoolDirs dirs, PoolDirs::make(settings.paths, settings.id));
  if (settings.proof_program.empty()) settings.proof.every = {};
  if (!settings.endings) settings.endings = std::make_shared<Endings>(loop);
  if (!settings.logs) {
    TRY(settings.logs, LogWatch::open(loop));
  }
  std::unique_ptr<Pool> pool(new Pool(loop, std::move(settings), std::move(callbacks), std::move(dirs)));
  Pool* self = pool.get();
  TRY(pool->log_, LogTail::open(self->settings_.logs, self->dirs_.log(), "control.log",
                                [self](const std::string& line) { self->read_log_line(line); }));
  return pool;
}

Pool::Pool(Loop& loop, PoolSettings settings, Callbacks callbacks, PoolDirs dirs)
    : loop_(loop),
      settings_(std::move(settings)),
      callbacks_(std::move(callbacks)),
      dirs_(std::move(dirs)),
      dialect_(mps::dialect_of(settings_.tier)),
      environment_(environment_of(settings_, dirs_)),
      daemon_environment_(daemon_environment_of(settings_, environment_)),
      sessions_(loop),
      prover_(loop, settings_.proof, prover_means()),
      orphans_(loop, kOrphanPatience, [this] { tell_change(state_); }) {
  state_.jitter = settings_.seed;
}

ProverMeans Pool::prover_means() {
  return {.plan =
              [this] {
                std::size_t clients = 0;
                for (const auto& server : state_.servers) clients += server.clients.size();
                return ProofPlan{settings_.proof_program, proof_environment(), settings_.devices,
                                 settings_.proof.deadline, clients};
              },
          .clients =
              [this] {
                std::vector<int> pids;
                for (const auto& server : state_.servers) {
                  pids.insert(pids.end(), server.clients.begin(), server.clients.end());
                }
                return pids;
              },
          .servers =
              [this] {
                std::vector<int> pids;
                for (const auto& server : state_.servers) pids.push_back(server.pid);
                return pids;
              },
          .end_clients = [this](std::vector<int> pids,
                                ProverMeans::Ended done) { end_clients({std::move(pids)}, std::move(done)); },
          .replace_daemon = [this](const std::string& why) { feed(mps::Replace{why}); },
          .on_change =
              [this](const mps::Proof& before) {
                if (callbacks_.on_proof) callbacks_.on_proof(before, prover_.state());
              },
          .take_turn = settings_.take_turn};
}

// In tier v3 a CUDA start uses the server's own socket: through the daemon's, the start would get a server of its user.
std::map<std::string, std::string> Pool::proof_environment() const {
  auto env = environment_;
  if (settings_.tier == mps::Tier::kV3) env[mps::kPipeVariable] = dirs_.pipe() + "/" + mps::v3::kServer;
  return env;
}

std::string_view Pool::state_word() const {
  return state_.state == mps::State::kServing ? mps::pool_word(prover_.state()) : mps::to_string(state_.state);
}

std::string Pool::reason() const {
  const auto& proof = prover_.state();
  if (state_.state != mps::State::kServing || proof.trusted) return state_.reason;
  if (proof.state != mps::ProofState::kFailed)
    return "a CUDA start through the daemon is under way; it serves when that works";
  std::string text = "new CUDA programs do not start: " + proof.reason;
  if (proof.step != mps::Step::kNone)
    text += fmt::format("; to repair it, its {} were ended", mps::to_string(proof.step));
  return text;
}

Pool::~Pool() = default;

void Pool::want(const mps::DaemonLimits& limits) {
  if (state_.state != mps::State::kAbsent) {
    return feed(state_.state == mps::State::kStopping ? mps::Event(mps::Start{limits})
                                                      : mps::Event(mps::DesiredChanged{limits}));
  }
  const auto adopted = adopt_leftover();
  // With a daemon that is not ours, the start fails with the same message and is retried.
  feed(mps::Start{limits, adopted.value_or(false)});
}

void Pool::aside(mps::Exchange question, Duration deadline, Aside::Done done) {
  const std::uint64_t id = ++last_aside_;
  asides_[id] = std::make_unique<Aside>(loop_, sessions_, target(), std::move(question), deadline,
                                        [this, id, done = std::move(done)](const mps::Event& event) {
                                          const auto ended =
                                              asides_.extract(id);  // keeps it until this callback returns
                                          done(event);
                                        });
}

void Pool::change(const mps::DaemonLimits& limits, Duration deadline, std::function<void(Status)> done) {
  const auto failed = [this, limits, done](const std::string& why) {
    // The daemon's state is unknown: the supervisor reads it and restores the earlier limits.
    const auto before = state_.desired;
    feed(mps::DesiredChanged{limits});
    feed(mps::DesiredChanged{before});
    done(fail(Kind::kUnavailable, why, settings_.id));
  };
  auto next = mps::told(state_);  // keeps the limits of the client whose turn it is
  next.namespaces = limits.namespaces;
  aside(dialect_.apply({0, next}), deadline, [this, limits, next, deadline, failed, done](const mps::Event& applied) {
    if (const auto* error = std::get_if<mps::QuestionFailed>(&applied)) return failed(to_string(error->error));
    aside(dialect_.read({0, next}), deadline, [this, limits, next, failed, done](const mps::Event& event) {
      const auto* read = std::get_if<mps::LimitsRead>(&event);
      if (read == nullptr) return failed(to_string(std::get<mps::QuestionFailed>(event).error));
      if (const auto difference = mps::disagreement(next, read->values); !difference.empty()) return failed(difference);
      feed(mps::DesiredChanged{limits, read->values});
      done({});
    });
  });
}

void Pool::stop() {
  feed(mps::StopAsked{});
}

void Pool::look() {
  feed(mps::LookNow{});
}

void Pool::heard_servers(std::uint64_t asked, const std::vector<mps::ServerSeen>& servers) {
  std::vector<int> pids;
  for (const auto& server : servers) pids.insert(pids.end(), server.clients.begin(), server.clients.end());
  listed_.heard(asked, pids);
}

// The relay holds its clients' processes: each pid that it reports is alive.
std::optional<ProcessRef> Pool::client(int pid) const {
  const auto relayed = settings_.relay_clients ? settings_.relay_clients() : std::nullopt;
  if (!relayed || std::ranges::find(*relayed, pid) == relayed->end()) return listed_.find(pid);
  const auto ref = process_ref(pid);
  return ref ? std::optional(*ref) : std::nullopt;
}

std::vector<int> Pool::clients() const {
  std::vector<int> pids;
  if (settings_.relay_clients) pids = settings_.relay_clients().value_or(std::vector<int>{});
  for (const auto& server : state_.servers) pids.insert(pids.end(), server.clients.begin(), server.clients.end());
  return pids;
}

std::vector<ProcessRef> Pool::listed() const {
  std::vector<ProcessRef> processes;
  for (const auto& server : state_.servers)
    for (const int pid : server.clients)
      if (const auto process = listed_.find(pid)) processes.push_back(*process);
  return processes;
}

// Without neighbours, a kill hurts no other client. The pool's own CUDA start counts as a neighbour: it tests whether
// new clients can start.
bool Pool::are_alone(const std::vector<int>& pids) const {
  if (!settings_.relay_clients || !settings_.relay_clients()) return false;
  const auto all = clients();
  return prover_.pid() == 0 &&
         std::ranges::all_of(all, [&](int pid) { return std::ranges::find(pids, pid) != pids.end(); });
}

// The servers' lists are up to a few seconds old: for pids that are not in them, the daemon is queried.
void Pool::end_clients(const EndRequest& request, ClientEnding::Done done) {
  EndedProcesses known;
  std::vector<ProcessRef> asked_about;
  std::vector<mps::Terminated> others;
  const auto exited = [&others](int pid) {
    others.push_back({pid, mps::TerminateOutcome::kNotAClient, "the process has exited"});
  };
  for (const int pid : std::set(request.clients.begin(), request.clients.end())) {
    if (const auto ref = client(pid)) {
      known.clients.push_back(*ref);
    } else if (const auto now = process_ref(pid); listed_.has(pid) || !now) {
      exited(pid);
    } else {
      asked_about.push_back(*now);
    }
  }
  for (const int pid : request.companions)
    if (const auto ref = process_ref(pid)) known.companions.push_back(*ref);
  if (asked_about.empty()) return end_known(known, std::move(others), std::move(done));
  aside(dialect_.ask(0, state_.desired), kClientQuestion,
        [this, known, asked_about, others, asked = boot_ticks(),
         done = std::move(done)](const mps::Event& event) mutable {
          if (const auto* answered = std::get_if<mps::Answered>(&event)) heard_servers(asked, answered->servers);
          for (const auto& ref : asked_about) {
            if (client(ref.pid) == ref) {
              known.clients.push_back(ref);
            } else {
              others.push_back(
                  {ref.pid, mps::TerminateOutcome::kNotAClient, "the servers of the pool do not know this process"});
            }
          }
          end_known(known, std::move(others), std::move(done));
        });
}

void Pool::end_known(const EndedProcesses& processes, std::vector<mps::Terminated> others, ClientEnding::Done done) {
  std::vector<int> pids;
  for (const auto& ref : processes.clients) pids.push_back(ref.pid);
  ended_.insert(ended_.end(), pids.begin(), pids.end());
  while (ended_.size() > kMostEndedRemembered) ended_.pop_front();
  settings_.endings->begin({.patience = are_alone(pids) ? Duration{} : stop_patience_}, processes,
                           [this, alive = std::weak_ptr(alive_), others = std::move(others),
                            done = std::move(done)](std::vector<mps::Terminated> outcomes) {
                             if (alive.expired()) return;
                             outcomes.insert(outcomes.end(), others.begin(), others.end());
                             look();  // checks that they have left MPS
                             done(std::move(outcomes));
                           });
}

bool Pool::gone() const {
  return state_.state == mps::State::kAbsent && !daemon_ && orphans_.none_left();
}

// Actions may raise events at once (a daemon that cannot be executed): these are queued.
void Pool::feed(mps::Event event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  const mps::Supervisor before = state_;
  while (!events_.empty()) {
    const mps::Event next = std::move(events_.front());
    events_.pop_front();
    const mps::State was = state_.state;
    auto stepped = mps::step(std::move(state_), next, loop_.now(), settings_.supervisor);
    state_ = std::move(stepped.next);
    if (state_.question == 0) question_.reset();
    for (const auto& action : stepped.actions) std::visit([this](const auto& a) { act(a); }, action);
    if (state_.state != mps::State::kServing) break_off_telling("the pool does not serve");
    tell_prover(was);
  }
  stepping_ = false;
  arm_timer();
  if (!looks_the_same(before, state_)) tell_change(before);
}

void Pool::tell_prover(mps::State was) {
  const mps::State is = state_.state;
  if (is != was && is == mps::State::kServing) {
    prover_.feed(mps::PoolServes{});
  } else if (is != was && is == mps::State::kConfiguring && was == mps::State::kServing) {
    prover_.feed(mps::PoolLeft{mps::PoolLeft::Why::kLimits});
  } else if (is != was && is != mps::State::kConfiguring) {
    const bool same_daemon = state_.alive && !state_.dying && is != mps::State::kStopping;
    prover_.feed(mps::PoolLeft{same_daemon ? mps::PoolLeft::Why::kSame : mps::PoolLeft::Why::kDaemon});
  }
  const bool handled =
      std::ranges::any_of(state_.servers, [](const mps::ServerSeen& one) { return one.status == "FAULT"; });
  if (std::exchange(fault_handled_, handled) != handled) prover_.feed(mps::FaultHandled{handled});
}

void Pool::arm_timer() {
  timer_.stop();
  const auto at = mps::wake_at(state_);
  if (!at) return;
  timer_.start(std::max(Duration{}, *at - loop_.now()), [this] { feed(mps::Tick{}); });
}

void Pool::tell_change(const mps::Supervisor& before) {
  if (callbacks_.on_change) callbacks_.on_change(before, state_);
}

void Pool::read_log_line(const std::string& line) {
  const auto parsed = mps::parse_log_line(line);
  if (!parsed || parsed->what == mps::LogWhat::kOther) return;
  count(*parsed);
  const auto news = faults_.read(*parsed, loop_.wall_now());
  if (news == mps::FaultBook::News::kFault) {
    const auto kind = faults_.faults().back().kind;
    ++(kind == mps::FaultKind::kFatal       ? counters_.fatal_faults
       : kind == mps::FaultKind::kException ? counters_.exceptions
                                            : counters_.unclean_exits);
  }
  tell_server(*parsed);
  doubt(*parsed);
  if (callbacks_.on_log) callbacks_.on_log(*parsed);
  if (news == mps::FaultBook::News::kFault && callbacks_.on_fault) callbacks_.on_fault(faults_.faults().back());
}

void Pool::count(const mps::LogLine& line) {
  switch (line.what) {
    case mps::LogWhat::kNewClient:
      ++counters_.clients;
      return;
    case mps::LogWhat::kClientRefused:
      ++counters_.clients_refused;
      return;
    case mps::LogWhat::kFatalVictim:
      ++counters_.fault_victims;
      return;
    case mps::LogWhat::kServerStarting:
      ++counters_.servers;
      orphans_.remember(line.pid);
      return;
    default:
      return;
  }
}

void Pool::tell_server(const mps::LogLine& line) {
  switch (line.what) {
    case mps::LogWhat::kNewClient:
      return feed(mps::ClientLogged{});
    case mps::LogWhat::kServerStarting:
      return feed(mps::ServerLogged{line.pid, "INITIALIZING"});
    case mps::LogWhat::kServerReady:
      return feed(mps::ServerLogged{line.pid, "ACTIVE"});
    case mps::LogWhat::kServerExited:
      return feed(mps::ServerLogged{line.pid, ""});
    case mps::LogWhat::kFatalHandled:
      return feed(mps::ServerLogged{line.writer, "FAULT"});
    default:
      return;
  }
}

// Events that preceded a wedge in practice: faults, exits of servers, clients that exit without closing their contexts.
void Pool::doubt(const mps::LogLine& line) {
  switch (line.what) {
    case mps::LogWhat::kFatalCulprit:
    case mps::LogWhat::kFatalException:
      return prover_.feed(mps::Doubt{mps::DoubtKind::kFault, "a fatal fault"});
    case mps::LogWhat::kServerExited:
      return prover_.feed(mps::Doubt{mps::DoubtKind::kDeath, "a server ended"});
    case mps::LogWhat::kClientLost:
      if (line.number == 0 || line.pid == prover_.pid() || std::ranges::find(ended_, line.pid) != ended_.end()) return;
      return prover_.feed(mps::Doubt{mps::DoubtKind::kDeath, "a client ended with open contexts"});
    default:
      return;
  }
}

}  // namespace tranche::host
