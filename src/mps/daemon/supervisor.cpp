#include "mps/daemon/supervisor.h"

#include <algorithm>

#include "base/enum_names.h"
#include "mps/daemon/supervisor_turn.h"

namespace tranche::mps {

void Turn::on(const Start& event) {
  if (s_.state == State::kStopping) {
    s_.desired = event.desired;
    s_.start_again = true;
    return;
  }
  if (s_.state != State::kAbsent) return on(DesiredChanged{event.desired});
  s_.desired = event.desired;
  s_.failures = 0;
  s_.alive = s_.may_have_clients = s_.verify_first = event.adopted;
  s_.spawned_before = s_.spawned_before || event.adopted;
  begin();
}

void Turn::on(const Spawned&) {
  s_.alive = true;
  if (s_.state == State::kAbsent) return enter_stopping();  // StopAsked arrived before this event
  if (s_.state == State::kStarting) s_.timer.reset();
  if (s_.state == State::kStarting && s_.question == 0) ask();
}

void Turn::on(const SpawnFailed& event) {
  if (!s_.alive && s_.state == State::kStarting)
    fail("the MPS control daemon cannot be started: " + to_string(event.error));
}

void Turn::on(const DaemonExited& event) {
  forget_daemon();
  switch (s_.state) {
    case State::kStopping:
      return ended();
    case State::kStarting:
    case State::kConfiguring:
    case State::kServing:
      return fail("the MPS control daemon " + event.note);
    case State::kAbsent:
    case State::kBackingOff:
    case State::kGivenUp:
      return;  // the next step does not depend on it
  }
}

void Turn::on(const Answered& event) {
  if (!is_open(event.id)) return;
  note_servers(event.servers);
  if (s_.state == State::kStarting) {
    s_.mute = false;
    enter(State::kConfiguring, s_.reason);
    if (s_.greeting == Greeting::kUntried) ping();
    return s_.verify_first ? read_limits() : apply_limits();
  }
  if (s_.state == State::kConfiguring) {
    // The daemon's own limits come before its servers'; a change of both starts with the daemon.
    if (!s_.read_back) return apply_limits();
    return apply_to_next_server() ? void() : serve();
  }
  if (s_.state == State::kServing) still_serving();
}

void Turn::on(const LimitsApplied& event) {
  if (s_.state != State::kConfiguring || !is_open(event.id)) return;
  read_limits();
}

void Turn::on(const LimitsRead& event) {
  if (s_.state != State::kConfiguring || !is_open(event.id)) return;
  const std::string difference = disagreement(limits_to_set(s_), event.values);
  if (difference.empty()) {
    s_.read_back = event.values;
    return apply_to_next_server() ? void() : serve();
  }
  if (s_.verify_first) {
    s_.verify_first = false;
    return ask();
  }
  configuring_failed(difference);
}

void Turn::on(const ServerLimitsApplied& event) {
  if (s_.state == State::kConfiguring && is_open(event.id)) ask();
}

void Turn::on(const ServerLogged& event) {
  if (!s_.alive) return;
  const auto found = std::ranges::find(s_.servers, event.pid, &ServerSeen::pid);
  if (event.status.empty()) {
    s_.gone_servers.push_back(event.pid);
    if (found != s_.servers.end()) s_.servers.erase(found);
  } else if (found == s_.servers.end()) {
    s_.servers.push_back({.pid = event.pid, .status = event.status, .clients = {}, .limits = {}, .since = now_});
  } else if (found->status != event.status) {
    found->status = event.status;
    found->since = now_;
  }
  if (s_.state != State::kServing) return;
  s_.reason = serving_note(s_);
  look_within(event.status == "FAULT" ? settings_.fault_every : settings_.health_every);
}

void Turn::on(const ClientLogged&) {
  if (s_.state == State::kServing) look_within(settings_.health_every);
}

void Turn::on(const AdmissionLimitsSet& event) {
  if (s_.state != State::kServing) return;  // the limits are set in another way in this state
  s_.turn = event.limits;
  if (s_.read_back) s_.read_back = event.defaults;
  s_.turn_unknown = false;
  s_.turn_problem.clear();
  s_.older_clients.clear();  // from now on each client has its own
  s_.reason = serving_note(s_);
}

void Turn::on(const AdmissionLimitsUnknown& event) {
  s_.turn.reset();
  s_.turn_unknown = true;
  s_.turn_problem = event.why;
  if (s_.state != State::kServing) return;
  s_.reason = serving_note(s_);
  if (s_.question == 0) s_.timer = now_;  // only an answer to a question shows whether the daemon responds
}

void Turn::on(const QuestionFailed& event) {
  if (!is_open(event.id)) return;
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
      return;  // in Stopping, the timer escalates
  }
}

void Turn::on(const QuestionWaits& event) {
  if (event.id != 0 && event.id == s_.question) s_.question_due = now_ + settings_.turn_patience;
}
void Turn::on(const QuestionBegun& event) {
  if (event.id != 0 && event.id == s_.question) s_.question_due = now_ + s_.question_time;
}

void Turn::on(const Pinged&) {
  s_.pinging = false;
  s_.greeting = Greeting::kGiven;
  if (s_.state == State::kServing) ping_later();
}

void Turn::on(const PingFailed& event) {
  s_.pinging = false;
  if (s_.greeting != Greeting::kGiven) {
    s_.greeting = Greeting::kMissing;
    return;
  }
  if (s_.state == State::kServing) fell_mute(event.error);
}

void Turn::on(const PingSkipped&) {
  s_.pinging = false;
  if (s_.state == State::kServing && s_.greeting == Greeting::kGiven) ping_later();
}

void Turn::on(const LookNow&) {
  if (s_.state == State::kServing && s_.question == 0) s_.timer = now_;
}

void Turn::on(const Replace& event) {
  if (!s_.alive || s_.state == State::kStopping || s_.state == State::kAbsent) return;
  kill();
  fail(event.why);
}

void Turn::on(const Tick&) {
  if (s_.question != 0 && now_ >= s_.question_due) {
    on(QuestionFailed{s_.question, Error{Kind::kTimeout, "no answer in time", "nvidia-cuda-mps-control", 0}});
  }
  if (s_.ping_at && now_ >= *s_.ping_at) ping();
  if (!s_.timer || now_ < *s_.timer) return;
  s_.timer.reset();
  on_timer();
}

void Turn::on(const StopAsked&) {
  s_.start_again = false;
  if (s_.state == State::kStopping) return;
  if (s_.alive) return enter_stopping();
  enter(State::kAbsent, "");
}

void Turn::on(const DesiredChanged& event) {
  const bool same = event.desired == s_.desired;
  s_.desired = event.desired;
  if (same && s_.state != State::kGivenUp) return;
  s_.verify_first = false;
  s_.server_tries.clear();
  s_.older_servers.clear();
  switch (s_.state) {
    case State::kServing:
    case State::kConfiguring:
      return reconfigure();
    case State::kGivenUp:
      s_.failures = 0;
      return begin();
    default:
      return;  // the next step reads it
  }
}

std::string_view to_string(State state) {
  return enum_name<State::kGivenUp>(
      state, {"absent", "starting", "configuring", "serving", "backing-off", "stopping", "given-up"});
}

DaemonLimits limits_to_set(const Supervisor& s) {
  return s.turn.value_or(s.desired);
}

std::string_view daemon_state(const Supervisor& s) {
  if (s.state == State::kStopping || s.dying) return "stopping";
  if (s.mute) return "mute";
  if (s.alive) return s.state == State::kStarting && !s.may_have_clients ? "starting" : "running";
  return s.state == State::kStarting ? "starting" : "absent";
}

Stepped step(Supervisor state, const Event& event, MonoTime now, const SupervisorSettings& settings) {
  Stepped out{std::move(state), {}};
  Turn turn(out, now, settings);
  std::visit([&](const auto& e) { turn.on(e); }, event);
  return out;
}

std::optional<MonoTime> wake_at(const Supervisor& state) {
  std::optional<MonoTime> at = state.timer;
  const auto sooner = [&](MonoTime other) { at = at ? std::min(*at, other) : other; };
  if (state.question != 0) sooner(state.question_due);
  if (state.ping_at) sooner(*state.ping_at);
  return at;
}

}  // namespace tranche::mps
