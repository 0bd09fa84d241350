#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/grid.h"
#include "mps/daemon/supervisor_turn.h"

namespace tranche::mps {
namespace {

constexpr int kServerTries =
    2;  // a server that still reports other limits after so many attempts does not accept limits

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

std::string listed(const std::vector<int>& pids) {
  std::string list;
  for (const int pid : pids) list += (list.empty() ? "" : ", ") + std::to_string(pid);
  return list;
}

bool differs(const ServerSeen& server, const Supervisor& s) {
  return server.limits && !s.turn_unknown && !disagreement(limits_to_set(s), *server.limits).empty();
}

bool has_clients(const Supervisor& s) {
  return std::ranges::any_of(s.servers, [](const ServerSeen& server) { return !server.clients.empty(); });
}

int& tries_of(std::vector<std::pair<int, int>>& tries, int server) {
  const auto found = std::ranges::find(tries, server, &std::pair<int, int>::first);
  if (found != tries.end()) return found->second;
  return tries.emplace_back(server, 0).second;
}

}  // namespace

std::string serving_note(const Supervisor& s) {
  std::vector<std::string> notes;
  if (!s.older_servers.empty()) {
    notes.push_back("the limits apply to new servers; started before under other limits: server " +
                    listed(s.older_servers));
  }
  if (!s.older_clients.empty()) {
    notes.push_back("the limits apply to new clients; these keep what they began with: pid " + listed(s.older_clients));
  }
  if (!s.turn_problem.empty()) notes.push_back("a grant's limits could not be set: " + s.turn_problem);
  for (const auto& server : s.servers) {
    if (server.status != "FAULT") continue;
    notes.push_back(
        fmt::format("server {} handles a fatal GPU error: it refuses new clients until those that it hit "
                    "have ended",
                    server.pid));
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

void Turn::enter(State state, std::string reason) {
  if (s_.state != state) s_.since = now_;
  s_.state = state;
  s_.reason = std::move(reason);
  s_.question = 0;
  s_.timer.reset();
  s_.ping_at.reset();
}

void Turn::enter_backing_off(const std::string& why, Duration delay) {
  enter(State::kBackingOff, why);
  s_.timer = now_ + delay;
}

void Turn::enter_stopping() {
  enter(State::kStopping, "asked to stop");
  s_.stop_stage = 0;
  s_.timer = now_ + settings_.quit_patience;
  actions_.push_back(Quit{open_question(settings_.quit_patience), settings_.quit_patience});
}

void Turn::ended() {
  enter(State::kAbsent, "");
  if (!s_.start_again) return;
  s_.start_again = false;
  s_.failures = 0;
  begin();
}

QuestionId Turn::open_question(Duration deadline) {
  s_.question = ++s_.last_question;
  // The caller reports within the deadline; the longer one here covers a lost answer.
  s_.question_time = 2 * deadline;
  s_.question_due = now_ + s_.question_time;
  return s_.question;
}

bool Turn::is_open(QuestionId id) {
  if (id == 0 || id != s_.question) return false;
  s_.question = 0;
  return true;
}

void Turn::ask() {
  s_.gone_servers.clear();
  actions_.push_back(Ask{open_question(settings_.question_deadline)});
}
void Turn::apply_limits() {
  s_.turn_unknown = false;
  actions_.push_back(ApplyLimits{open_question(settings_.question_deadline), limits_to_set(s_)});
}
void Turn::read_limits() {
  actions_.push_back(ReadLimits{open_question(settings_.question_deadline), limits_to_set(s_)});
}

bool Turn::apply_to_next_server() {
  for (const auto& server : s_.servers) {
    if (!differs(server, s_)) continue;
    int& tries = tries_of(s_.server_tries, server.pid);
    if (tries >= kServerTries) {
      if (std::ranges::find(s_.older_servers, server.pid) == s_.older_servers.end())
        s_.older_servers.push_back(server.pid);
      continue;
    }
    ++tries;
    for (const int client : server.clients) {
      if (s_.turn) break;  // each client has its own
      if (std::ranges::find(s_.older_clients, client) == s_.older_clients.end()) s_.older_clients.push_back(client);
    }
    actions_.push_back(ApplyServerLimits{open_question(settings_.question_deadline), server.pid, limits_to_set(s_)});
    return true;
  }
  return false;
}

void Turn::ping() {
  s_.ping_at.reset();
  if (s_.pinging) return;
  s_.pinging = true;
  actions_.push_back(Ping{});
}

void Turn::ping_later() {
  s_.ping_at = next_on_grid(now_, has_clients(s_) ? settings_.ping_every : settings_.rest_ping_every);
}

void Turn::begin() {
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
  s_.timer = now_ + settings_.start_deadline;  // for the report whether the spawn succeeded
  actions_.push_back(SpawnDaemon{});
}

void Turn::serve() {
  const bool verified_only = s_.verify_first;
  s_.verify_first = false;
  s_.may_have_clients = true;
  enter(State::kServing, serving_note(s_));
  if (verified_only && s_.reason.empty()) s_.reason = "adopted: it ran before this program did";
  s_.timer = now_ + settings_.health_every;
  if (s_.greeting == Greeting::kGiven) ping_later();
  actions_.push_back(OpenEndpoints{});
}

void Turn::still_serving() {
  const auto out_of_line = std::ranges::find_if(s_.servers, [&](const ServerSeen& server) {
    return differs(server, s_) && tries_of(s_.server_tries, server.pid) < kServerTries;
  });
  if (out_of_line != s_.servers.end()) {
    enter(State::kConfiguring, fmt::format("server {} has other limits; they are being applied", out_of_line->pid));
    (void)apply_to_next_server();
    return;
  }
  s_.reason = serving_note(s_);
  forget_failures_when_stable();
  const bool fault = std::ranges::any_of(s_.servers, [](const ServerSeen& one) { return one.status == "FAULT"; });
  // Without a greeting, only answers to questions show that the daemon responds.
  const bool rests = s_.greeting == Greeting::kGiven && !has_clients(s_) &&
                     std::ranges::all_of(s_.servers, [](const ServerSeen& one) { return one.status == "ACTIVE"; });
  s_.timer = now_ + (fault ? settings_.fault_every : rests ? settings_.rest_every : settings_.health_every);
}

void Turn::look_within(Duration time) {
  if (s_.timer) s_.timer = std::min(*s_.timer, now_ + time);
}

void Turn::reconfigure() {
  enter(State::kConfiguring, "the limits changed and are being applied");
  s_.read_back.reset();
  ask();  // also reports which servers run now
}

void Turn::still_mute(const Error& error) {
  const Duration mute_for = now_ - s_.unanswered_since;
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

void Turn::fell_mute(const Error& error) {
  forget_failures_when_stable();
  enter(State::kStarting, "");
  s_.mute = true;
  s_.read_back.reset();
  s_.unanswered_since = now_;
  still_mute(error);
}

void Turn::configuring_failed(const std::string& why) {
  if (!s_.may_have_clients) kill();
  fail("the limits are not in force: " + why);
}

void Turn::kill() {
  if (!s_.alive) return;
  s_.dying = true;
  actions_.push_back(SignalKill{});
}

void Turn::fail(const std::string& why) {
  if (s_.state == State::kServing) forget_failures_when_stable();
  s_.read_back.reset();
  ++s_.failures;
  if (s_.failures >= settings_.start_limit) {
    return enter(State::kGivenUp, fmt::format("given up after {} failures in a row; the last: {}", s_.failures, why));
  }
  enter_backing_off(why, next_delay());
}

Duration Turn::next_delay() {
  const double doubled =
      static_cast<double>(settings_.backoff_first.count()) * std::exp2(std::clamp(s_.failures - 1, 0, 30));
  const double capped = std::min(doubled, static_cast<double>(settings_.backoff_longest.count()));
  // 75 % to 125 %, so that the daemons of a node do not all start at the same moment.
  const double unit = static_cast<double>(next_random(s_.jitter) >> 11) * 0x1.0p-53;
  return Duration(static_cast<Duration::rep>(capped * (0.75 + 0.5 * unit)));
}

void Turn::forget_failures_when_stable() {
  if (now_ - s_.since >= settings_.stable_after) s_.failures = 0;
}

void Turn::on_timer() {
  switch (s_.state) {
    case State::kStarting:
      if (!s_.alive) return fail("the MPS control daemon cannot be started, and its process left no message");
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

void Turn::escalate() {
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

void Turn::note_servers(std::vector<ServerSeen> servers) {
  std::erase_if(servers, [&](const ServerSeen& server) {
    return std::ranges::find(s_.gone_servers, server.pid) != s_.gone_servers.end();
  });
  for (auto& server : servers) {
    const auto before = std::ranges::find(s_.servers, server.pid, &ServerSeen::pid);
    const bool same = before != s_.servers.end() && before->status == server.status;
    server.since = same ? before->since : now_;
  }
  s_.servers = std::move(servers);
  const auto has_server = [&](int pid) {
    return std::ranges::find(s_.servers, pid, &ServerSeen::pid) != s_.servers.end();
  };
  const auto has_client = [&](int pid) {
    return std::ranges::any_of(s_.servers, [&](const ServerSeen& server) {
      return std::ranges::find(server.clients, pid) != server.clients.end();
    });
  };
  std::erase_if(s_.older_servers, [&](int pid) { return !has_server(pid); });
  std::erase_if(s_.older_clients, [&](int pid) { return !has_client(pid); });
  std::erase_if(s_.server_tries, [&](const auto& tries) { return !has_server(tries.first); });
}

void Turn::forget_daemon() {
  s_.alive = s_.dying = s_.may_have_clients = s_.verify_first = s_.mute = false;
  s_.servers.clear();
  s_.older_servers.clear();
  s_.older_clients.clear();
  s_.server_tries.clear();
  s_.gone_servers.clear();
  s_.turn.reset();
  s_.turn_unknown = false;
  s_.turn_problem.clear();
  s_.read_back.reset();
  s_.greeting = Greeting::kUntried;
  s_.pinging = false;
  s_.ping_at.reset();
  s_.question = 0;
}

}  // namespace tranche::mps
