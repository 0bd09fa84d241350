#include "mps/daemon/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace tranche::mps {
namespace {

// A server that still reports other limits after so many attempts does not accept limits.
constexpr int kServerTries = 2;

std::string in_seconds(Duration d) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(d).count());
}

bool is_daemons_fault(Kind kind) {
  return kind == Kind::kTimeout || kind == Kind::kNotFound || kind == Kind::kInvalid;
}

bool differs(const ServerSeen& server, const Supervisor& s) {
  return server.limits && !s.turn_problem && !disagreement(limits_to_set(s), *server.limits).empty();
}

bool has_fault(const ServerSeen& server) {
  return server.status == "FAULT";
}

// A note for the operator about a serving pool.
std::string serving_note(const Supervisor& s) {
  std::vector<std::string> notes;
  std::vector<int> older;
  for (const auto& server : s.servers)
    if (s.server_tries >= kServerTries && differs(server, s)) older.push_back(server.pid);
  if (!older.empty())
    notes.push_back(fmt::format("the limits apply to new servers; started before under other limits: server {}",
                                fmt::join(older, ", ")));
  if (s.turn_problem && !s.turn_problem->empty())
    notes.push_back("a grant's limits could not be set: " + *s.turn_problem);
  for (const auto& server : s.servers)
    if (has_fault(server))
      notes.push_back(
          fmt::format("server {} handles a fatal GPU error: it refuses new clients until those that it hit "
                      "have ended",
                      server.pid));
  return fmt::format("{}", fmt::join(notes, "; "));
}

// Handles one event: it holds the arguments of step() and its result.
class Turn {
 public:
  Turn(Supervisor& state, MonoTime now, const SupervisorSettings& settings)
      : s_(state), now_(now), settings_(settings) {}
  std::vector<Action> actions;

  void on(const Want& event) {
    if (s_.state == State::kStopping) return;
    const bool same = event.desired == s_.desired;
    s_.desired = event.desired;
    const bool begins = s_.state == State::kAbsent || s_.state == State::kGivenUp;
    if (same && !begins) return;
    s_.untouched = false;
    s_.server_tries = 0;
    if (begins) {
      s_.failures = 0;
      return begin();
    }
    if (s_.state != State::kServing && s_.state != State::kConfiguring) return;  // the next step reads it
    enter(State::kConfiguring, "the limits changed and are being applied");
    s_.read_back.reset();
    ask();  // also reports which servers run now
  }

  void on(const Spawned& event) {
    if (!event.adopted) {
      if (!s_.alive && s_.state == State::kStarting)
        fail("the MPS control daemon cannot be started: " + to_string(event.adopted.error()));
      return;
    }
    s_.alive = true;
    if (*event.adopted) s_.may_have_clients = s_.untouched = true;
    if (s_.state == State::kAbsent) return enter_stopping();  // StopAsked arrived before this event
    if (s_.state != State::kStarting) return;
    s_.timer.reset();
    if (!s_.question_due) ask();
  }

  void on(const DaemonExited& event) {
    static_cast<DaemonSeen&>(s_) = {};
    if (s_.state == State::kStopping) return enter(State::kAbsent, "");
    if (s_.state == State::kStarting || s_.state == State::kConfiguring || s_.state == State::kServing)
      fail("the MPS control daemon " + event.note);  // in the other states, the next step does not depend on it
  }

  void on(const Answered& event) {
    if (!std::exchange(s_.question_due, {})) return;
    s_.servers = event.servers;
    std::erase_if(s_.servers, [&](const ServerSeen& server) { return s_.gone_servers.contains(server.pid); });
    if (s_.state == State::kStarting) {
      s_.mute = false;
      enter(State::kConfiguring, s_.reason);
      if (!s_.greets) ping();
    }
    if (s_.state == State::kConfiguring) return configure(event.defaults);
    if (s_.state == State::kServing) still_serving();
  }

  void on(const ServerLogged& event) {
    if (!s_.alive) return;
    const auto found = std::ranges::find(s_.servers, event.pid, &ServerSeen::pid);
    if (event.status.empty()) {
      s_.gone_servers.insert(event.pid);
      if (found != s_.servers.end()) s_.servers.erase(found);
    } else if (found == s_.servers.end()) {
      s_.servers.push_back({.pid = event.pid, .status = event.status});
    } else {
      found->status = event.status;
    }
    if (s_.state != State::kServing) return;
    s_.reason = serving_note(s_);
    look_within(event.status == "FAULT" ? settings_.fault_every : settings_.health_every);
  }

  void on(const AdmissionLimitsSet& event) {
    if (s_.state != State::kServing) return;  // the limits are set in another way in this state
    s_.turn = event.limits;
    if (s_.read_back) s_.read_back = event.defaults;
    s_.turn_problem.reset();
    s_.reason = serving_note(s_);
  }

  void on(const AdmissionLimitsUnknown& event) {
    s_.turn.reset();
    s_.turn_problem = event.why;
    if (s_.state != State::kServing) return;
    s_.reason = serving_note(s_);
    look_within({});  // only an answer to a question shows whether the daemon responds
  }

  void on(const QuestionFailed& event) {
    if (!std::exchange(s_.question_due, {})) return;
    switch (s_.state) {
      case State::kStarting:
        return still_mute(event.error);
      case State::kConfiguring:
        return configuring_failed(to_string(event.error));
      case State::kServing:
        if (event.error.kind != Kind::kConflict) return fell_mute(event.error);
        s_.reason =
            "a different process holds the MPS control daemon's one session: it serves, but its limits cannot be "
            "looked at and no client can be ended through it until that session is closed";
        s_.timer = now_ + settings_.health_every;
        return;
      default:
        return;  // in Stopping, the timer kills
    }
  }

  void on(const Pinged& event) {
    s_.pinging = false;
    if (event.greeted) s_.greets = true;
    if (s_.state != State::kServing || !s_.greets) return;
    return event.greeted ? ping_later() : fell_mute(event.greeted.error());
  }

  void on(const PingSkipped&) {
    s_.pinging = false;
    if (s_.state == State::kServing && s_.greets) ping_later();
  }

  void on(const Look& event) {
    if (s_.state == State::kServing) look_within(event.within);
  }

  void on(const Replace& event) {
    if (!s_.alive || s_.state == State::kStopping || s_.state == State::kAbsent) return;
    kill();
    fail(event.why);
  }

  void on(const Tick&) {
    if (s_.question_due && now_ >= *s_.question_due)
      on(QuestionFailed{Error{Kind::kTimeout, "no answer in time", "nvidia-cuda-mps-control", 0}});
    if (s_.ping_at && now_ >= *s_.ping_at) ping();
    if (!s_.timer || now_ < *s_.timer) return;
    s_.timer.reset();
    on_timer();
  }

  void on(const StopAsked&) {
    if (s_.state == State::kStopping) return;
    if (s_.alive) return enter_stopping();
    enter(State::kAbsent, "");
  }

 private:
  void enter(State state, std::string reason) {
    if (s_.state != state) s_.since = now_;
    s_.state = state;
    s_.reason = std::move(reason);
    s_.applied = false;
    s_.question_due.reset();
    s_.timer.reset();
    s_.ping_at.reset();
  }

  void enter_backing_off(const std::string& why, Duration delay) {
    enter(State::kBackingOff, why);
    s_.timer = now_ + delay;
  }

  void enter_stopping() {
    enter(State::kStopping, "asked to stop");
    s_.timer = now_ + settings_.quit_patience + settings_.exit_patience;
    open_question(Quit{settings_.quit_patience});
  }

  void open_question(Action action) {
    // The caller reports a question without an answer in time; this covers a lost report.
    s_.question_due = now_ + settings_.answer_patience;
    actions.push_back(std::move(action));
  }

  void ask(bool set = false) {
    s_.gone_servers.clear();
    open_question(Ask{limits_to_set(s_), set});
  }

  void configure(const DaemonLimits& defaults) {
    const std::string difference = disagreement(limits_to_set(s_), defaults);
    if (difference.empty() && !s_.turn_problem && with_other_limits() == nullptr) {
      s_.read_back = defaults;
      return serve();
    }
    if (!difference.empty() && s_.applied) return configuring_failed(difference);
    apply_limits();
  }

  // nullptr: every server has the limits, or does not accept them.
  const ServerSeen* with_other_limits() {
    const auto found = std::ranges::find_if(s_.servers, [&](const ServerSeen& server) { return differs(server, s_); });
    if (found == s_.servers.end()) s_.server_tries = 0;
    return found == s_.servers.end() || s_.server_tries >= kServerTries ? nullptr : &*found;
  }

  void apply_limits() {
    s_.applied = true;
    s_.untouched = false;
    s_.turn_problem.reset();
    ++s_.server_tries;
    ask(/*set=*/true);
  }

  void ping() {
    s_.ping_at.reset();
    if (s_.pinging) return;
    s_.pinging = true;
    actions.push_back(PingDaemon{});
  }

  void ping_later() {
    s_.ping_at = next_on_grid(now_, live_clients(s_) > 0 ? settings_.ping_every : settings_.rest_ping_every);
  }

  // Moves towards serving from the daemon's current state.
  void begin() {
    if (s_.dying) {
      s_.timer = now_ + settings_.kill_again;
      actions.push_back(KillDaemon{});
      s_.reason = "the MPS control daemon was sent SIGKILL and does not end: it hangs in the driver";
      if (s_.state == State::kGivenUp) enter_backing_off(s_.reason, settings_.kill_again);
      return;
    }
    enter(State::kStarting, s_.reason);
    if (s_.alive) return ask();
    s_.may_have_clients = false;
    s_.restarts += s_.spawned_before ? 1 : 0;
    s_.spawned_before = true;
    s_.timer = now_ + settings_.start_deadline;  // for the report whether the spawn succeeded
    actions.push_back(SpawnDaemon{});
  }

  void serve() {
    s_.may_have_clients = true;
    enter(State::kServing, serving_note(s_));
    if (std::exchange(s_.untouched, false) && s_.reason.empty()) s_.reason = "adopted: it ran before this program did";
    s_.timer = now_ + settings_.health_every;
    if (s_.greets) ping_later();
    actions.push_back(OpenEndpoints{});
  }

  void still_serving() {
    if (const auto* server = with_other_limits()) {
      enter(State::kConfiguring, fmt::format("server {} has other limits; they are being applied", server->pid));
      return apply_limits();
    }
    s_.reason = serving_note(s_);
    forget_failures_when_stable();
    const bool fault = std::ranges::any_of(s_.servers, has_fault);
    // Without a greeting, only answers to questions show that the daemon responds.
    const bool rests = s_.greets && live_clients(s_) == 0 &&
                       std::ranges::all_of(s_.servers, [](const ServerSeen& one) { return one.status == "ACTIVE"; });
    s_.timer = now_ + (fault ? settings_.fault_every : rests ? settings_.rest_every : settings_.health_every);
  }

  // Without effect while a question is open, when there is no timer.
  void look_within(Duration time) {
    if (s_.timer) s_.timer = std::min(*s_.timer, now_ + time);
  }

  void still_mute(const Error& error) {
    const Duration mute_for = now_ - s_.since;
    const Duration patience = s_.may_have_clients ? settings_.mute_patience : settings_.start_deadline;
    // A question that could not be sent is no evidence against a daemon that has clients.
    const bool blame = is_daemons_fault(error.kind) || !s_.may_have_clients;
    if (blame && mute_for >= patience) {
      kill();
      return fail(
          fmt::format("the MPS control daemon did not answer for {}: {}", in_seconds(mute_for), to_string(error)));
    }
    s_.reason = s_.may_have_clients
                    ? fmt::format(
                          "the MPS control daemon does not answer ({}); its clients run on, and it is restarted "
                          "when it stays mute for {}",
                          to_string(error), in_seconds(patience))
                    : "the MPS control daemon does not answer yet: " + to_string(error);
    s_.timer = now_ + settings_.ask_again;
  }

  void fell_mute(const Error& error) {
    forget_failures_when_stable();
    enter(State::kStarting, "");
    s_.mute = true;
    s_.read_back.reset();
    still_mute(error);
  }

  void configuring_failed(const std::string& why) {
    if (!s_.may_have_clients) kill();
    fail("the limits are not in effect: " + why);
  }

  void kill() {
    if (!s_.alive) return;
    s_.dying = true;
    actions.push_back(KillDaemon{});
  }

  void fail(const std::string& why) {
    if (s_.state == State::kServing) forget_failures_when_stable();
    s_.read_back.reset();
    ++s_.failures;
    if (s_.failures >= settings_.start_limit) {
      return enter(State::kGivenUp, fmt::format("given up after {} failures in a row; the last: {}", s_.failures, why));
    }
    enter_backing_off(why, doubled(settings_.backoff_first, settings_.backoff_longest, s_.failures));
  }

  void forget_failures_when_stable() {
    if (now_ - s_.since >= settings_.stable_after) s_.failures = 0;
  }

  void on_timer() {
    switch (s_.state) {
      case State::kStarting:
        if (!s_.alive) return fail("the MPS control daemon cannot be started, and its process left no message");
        return ask();
      case State::kServing:
        return ask();
      case State::kBackingOff:
        return begin();
      case State::kStopping:
        s_.reason = "asked to stop; it was sent SIGKILL";
        s_.timer = now_ + settings_.kill_again;
        return actions.push_back(KillDaemon{});
      default:
        return;
    }
  }

  Supervisor& s_;
  MonoTime now_;
  const SupervisorSettings& settings_;
};

}  // namespace

DaemonLimits limits_to_set(const Supervisor& s) {
  return s.turn.value_or(s.desired);
}

std::string_view daemon_state(const Supervisor& s) {
  if (s.state == State::kStopping || s.dying) return "stopping";
  if (s.mute) return "mute";
  if (s.alive) return s.state == State::kStarting && !s.may_have_clients ? "starting" : "running";
  return s.state == State::kStarting ? "starting" : "absent";
}

std::vector<Action> step(Supervisor& state, const Event& event, MonoTime now, const SupervisorSettings& settings) {
  Turn turn(state, now, settings);
  std::visit([&](const auto& e) { turn.on(e); }, event);
  return std::move(turn.actions);
}

std::vector<int> server_pids(const std::vector<ServerSeen>& servers) {
  std::vector<int> pids;
  for (const auto& server : servers) pids.push_back(server.pid);
  return pids;
}

std::vector<int> client_pids(const std::vector<ServerSeen>& servers) {
  std::vector<int> pids;
  for (const auto& server : servers) pids.insert(pids.end(), server.clients.begin(), server.clients.end());
  return pids;
}

std::uint32_t live_clients(const Supervisor& state) {
  return static_cast<std::uint32_t>(client_pids(state.servers).size());
}

std::optional<MonoTime> wake_at(const Supervisor& state) {
  std::optional<MonoTime> at;
  for (const auto& each : {state.timer, state.question_due, state.ping_at})
    if (each && (!at || *each < *at)) at = each;
  return at;
}

}  // namespace tranche::mps
