#include "mps/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tranche::mps {
namespace {

// SplitMix64: small, seedable, and its whole state is one number that can be compared and printed.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ull;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::string in_seconds(Duration d) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(d).count());
}

bool is_daemons_fault(Kind kind) {
  return kind == Kind::kTimeout || kind == Kind::kNotFound || kind == Kind::kInvalid;
}

std::string older_servers_note(const std::vector<int>& pids) {
  if (pids.empty()) return {};
  std::string list;
  for (const int pid : pids) list += (list.empty() ? "" : ", ") + std::to_string(pid);
  return "the limits apply to new servers; started before under other limits: server " + list;
}

// What to know about a pool that serves.
std::string serving_note(const Supervisor& s) {
  std::string note = older_servers_note(s.older_servers);
  for (const auto& server : s.servers) {
    if (server.status != "FAULT") continue;
    note += (note.empty() ? "" : "; ") + fmt::format(
                                             "server {} handles a fatal GPU error: it refuses new clients until "
                                             "those that it hit have ended",
                                             server.pid);
  }
  return note;
}

// One event's worth of thinking: holds what step() was given and writes into its result.
class Turn {
 public:
  Turn(Stepped& out, MonoTime now, const SupervisorSettings& settings)
      : s_(out.next), actions_(out.actions), now_(now), settings_(settings) {}

  void on(const Start& event) {
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

  void on(const Spawned&) {
    s_.alive = true;
    if (s_.state == State::kAbsent) return enter_stopping();  // asked to stop before the news came
    if (s_.state == State::kStarting) s_.timer.reset();
    if (s_.state == State::kStarting && s_.question == 0) ask();
  }

  void on(const SpawnFailed& event) {
    if (!s_.alive && s_.state == State::kStarting)
      fail("the MPS control daemon cannot be started: " + to_string(event.error));
  }

  void on(const DaemonExited& event) {
    s_.alive = s_.dying = s_.may_have_clients = s_.verify_first = s_.servers_are_older = false;
    s_.servers.clear();
    s_.older_servers.clear();
    s_.read_back.reset();
    s_.question = 0;
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
        return;  // what happens next does not depend on it
    }
  }

  void on(const Answered& event) {
    if (!is_open(event.id)) return;
    note_servers(event.servers);
    if (s_.state == State::kStarting) {
      enter(State::kConfiguring, s_.reason);
      return s_.verify_first ? read_limits() : apply_limits();
    }
    if (s_.state == State::kConfiguring) return apply_limits();
    if (s_.state == State::kServing) {
      s_.reason = serving_note(s_);
      forget_failures_when_stable();
      s_.timer = now_ + settings_.health_every;
    }
  }

  void on(const LimitsApplied& event) {
    if (s_.state != State::kConfiguring || !is_open(event.id)) return;
    read_limits();
  }

  void on(const LimitsRead& event) {
    if (s_.state != State::kConfiguring || !is_open(event.id)) return;
    s_.read_back = event.values;
    const std::string difference = disagreement(s_.desired, event.values);
    if (difference.empty()) return serve();
    if (s_.verify_first) {
      s_.verify_first = false;
      s_.servers_are_older = true;
      return ask();
    }
    configuring_failed(difference);
  }

  void on(const QuestionFailed& event) {
    if (!is_open(event.id)) return;
    switch (s_.state) {
      case State::kStarting:
        return still_mute(event.error);
      case State::kConfiguring:
        return configuring_failed(to_string(event.error));
      case State::kServing:
        return fell_mute(event.error);
      default:
        return;  // Stopping: the timer escalates
    }
  }

  void on(const Tick&) {
    if (s_.question != 0 && now_ >= s_.question_due) {
      on(QuestionFailed{s_.question, Error{Kind::kTimeout, "no answer in time", "nvidia-cuda-mps-control", 0}});
    }
    if (!s_.timer || now_ < *s_.timer) return;
    s_.timer.reset();
    on_timer();
  }

  void on(const StopAsked&) {
    s_.start_again = false;
    if (s_.state == State::kStopping) return;
    if (s_.alive) return enter_stopping();
    enter(State::kAbsent, "");
  }

  void on(const DesiredChanged& event) {
    if (event.desired == s_.desired && s_.state != State::kGivenUp) return;
    s_.desired = event.desired;
    s_.verify_first = false;
    s_.servers_are_older = s_.alive;
    switch (s_.state) {
      case State::kServing:
      case State::kConfiguring:
        enter(State::kConfiguring, "the limits changed and are being applied");
        return ask();  // also tells which servers run by now
      case State::kGivenUp:
        s_.failures = 0;
        return begin();
      default:
        return;  // taken up on the way
    }
  }

  void on(const Retry&) {
    if (s_.state != State::kBackingOff && s_.state != State::kGivenUp) return;
    s_.failures = 0;
    begin();
  }

 private:
  void enter(State state, std::string reason) {
    if (s_.state != state) s_.since = now_;
    s_.state = state;
    s_.reason = std::move(reason);
    s_.question = 0;
    s_.timer.reset();
  }

  QuestionId open_question(Duration deadline) {
    s_.question = ++s_.last_question;
    // The host answers within the deadline; the machine's own is longer and covers an answer that got lost.
    s_.question_due = now_ + 2 * deadline;
    return s_.question;
  }
  bool is_open(QuestionId id) {
    if (id == 0 || id != s_.question) return false;
    s_.question = 0;
    return true;
  }
  void ask() { actions_.push_back(Ask{open_question(settings_.question_deadline)}); }
  void apply_limits() { actions_.push_back(ApplyLimits{open_question(settings_.question_deadline), s_.desired}); }
  void read_limits() { actions_.push_back(ReadLimits{open_question(settings_.question_deadline), s_.desired}); }

  // Toward serving, from wherever the daemon is.
  void begin() {
    if (s_.dying) {
      s_.timer = now_ + settings_.kill_again;
      actions_.push_back(SignalKill{});
      s_.reason = "the MPS control daemon was sent SIGKILL and does not end: it hangs in the driver";
      if (s_.state == State::kGivenUp) enter_backing_off(s_.reason, settings_.kill_again);
      return;
    }
    enter(State::kStarting, s_.reason);
    s_.unanswered_since = now_;
    if (s_.alive) return ask();
    s_.may_have_clients = false;
    s_.restarts += s_.spawned_before ? 1 : 0;
    s_.spawned_before = true;
    s_.timer = now_ + settings_.start_deadline;  // for the news whether it could be spawned
    actions_.push_back(SpawnDaemon{});
  }

  void serve() {
    const bool verified_only = s_.verify_first;
    s_.verify_first = false;
    s_.may_have_clients = true;
    enter(State::kServing, serving_note(s_));
    if (verified_only && s_.reason.empty()) s_.reason = "adopted: it ran before this program did";
    s_.timer = now_ + settings_.health_every;
    actions_.push_back(OpenDoors{});
  }

  void still_mute(const Error& error) {
    const Duration mute_for = now_ - s_.unanswered_since;
    const Duration patience = s_.may_have_clients ? settings_.mute_patience : settings_.start_deadline;
    // A question that we could not even ask says nothing against a daemon that has clients.
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
    s_.unanswered_since = now_;
    still_mute(error);
  }

  void configuring_failed(const std::string& why) {
    if (!s_.may_have_clients) kill();
    fail("the limits are not in force: " + why);
  }

  void kill() {
    if (!s_.alive) return;
    s_.dying = true;
    actions_.push_back(SignalKill{});
  }

  void fail(const std::string& why) {
    if (s_.state == State::kServing) forget_failures_when_stable();
    ++s_.failures;
    if (s_.failures >= settings_.start_limit) {
      return enter(State::kGivenUp, fmt::format("given up after {} failures in a row; the last: {}", s_.failures, why));
    }
    enter_backing_off(why, next_delay());
  }
  void enter_backing_off(const std::string& why, Duration delay) {
    enter(State::kBackingOff, why);
    s_.timer = now_ + delay;
  }
  Duration next_delay() {
    const double doubled =
        static_cast<double>(settings_.backoff_first.count()) * std::exp2(std::clamp(s_.failures - 1, 0, 30));
    const double capped = std::min(doubled, static_cast<double>(settings_.backoff_longest.count()));
    // 75 % to 125 %, so that the daemons of a node do not all start in the same moment.
    const double unit = static_cast<double>(next_random(s_.jitter) >> 11) * 0x1.0p-53;
    return Duration(static_cast<Duration::rep>(capped * (0.75 + 0.5 * unit)));
  }
  void forget_failures_when_stable() {
    if (now_ - s_.since >= settings_.stable_after) s_.failures = 0;
  }

  void enter_stopping() {
    enter(State::kStopping, "asked to stop");
    s_.stop_stage = 0;
    s_.timer = now_ + settings_.quit_patience;
    actions_.push_back(Quit{open_question(settings_.quit_patience), settings_.quit_patience});
  }
  void ended() {
    enter(State::kAbsent, "");
    if (!s_.start_again) return;
    s_.start_again = false;
    s_.failures = 0;
    begin();
  }

  void on_timer() {
    switch (s_.state) {
      case State::kStarting:
        if (!s_.alive) return fail("the MPS control daemon cannot be started: nobody said how that went");
        return ask();
      case State::kServing:
        return ask();
      case State::kBackingOff:
        return begin();
      case State::kStopping:
        return escalate();
      default:
        return;
    }
  }
  void escalate() {
    if (s_.stop_stage == 0) {
      s_.stop_stage = 1;
      s_.timer = now_ + settings_.term_patience;
      actions_.push_back(SignalTerm{});
      return;
    }
    s_.stop_stage = 2;
    s_.reason = "asked to stop; it was sent SIGKILL";
    s_.timer = now_ + settings_.kill_again;
    actions_.push_back(SignalKill{});
  }

  void note_servers(const std::vector<ServerSeen>& servers) {
    s_.servers = servers;
    if (!s_.servers_are_older) {
      std::erase_if(s_.older_servers, [&](int pid) {
        return std::ranges::none_of(servers, [&](const ServerSeen& server) { return server.pid == pid; });
      });
      return;
    }
    s_.servers_are_older = false;
    s_.older_servers.clear();
    for (const auto& server : servers) s_.older_servers.push_back(server.pid);
  }

  Supervisor& s_;
  std::vector<Action>& actions_;
  MonoTime now_;
  const SupervisorSettings& settings_;
};

}  // namespace

std::string_view to_string(State state) {
  switch (state) {
    case State::kAbsent:
      return "absent";
    case State::kStarting:
      return "starting";
    case State::kConfiguring:
      return "configuring";
    case State::kServing:
      return "serving";
    case State::kBackingOff:
      return "backing-off";
    case State::kStopping:
      return "stopping";
    case State::kGivenUp:
      return "given-up";
  }
  return "unknown";
}

Stepped step(Supervisor state, const Event& event, MonoTime now, const SupervisorSettings& settings) {
  Stepped out{std::move(state), {}};
  Turn turn(out, now, settings);
  std::visit([&](const auto& e) { turn.on(e); }, event);
  return out;
}

std::optional<MonoTime> wake_at(const Supervisor& state) {
  if (state.question == 0) return state.timer;
  return state.timer ? std::min(*state.timer, state.question_due) : state.question_due;
}

}  // namespace tranche::mps
