#pragma once
// Test fixture for the supervisor: a rig that feeds events to one supervisor, and the states that a test starts from.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mps/daemon/supervisor.h"

namespace tranche::mps {

using namespace std::chrono_literals;

inline const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
inline const DaemonLimits kLimits{{{kA, mib(14377)}}, Percent::whole(10)};
inline const DaemonLimits kOther{{{kA, mib(28754)}}, Percent::whole(20)};
inline const DaemonLimits kRead{{{kA, gib(14)}}, Percent::whole(10)};
inline const DaemonLimits kReadOther{{{kA, gib(28)}}, Percent::whole(20)};
inline const Error kMute{Kind::kTimeout, "no answer within 1.0 s", "nvidia-cuda-mps-control", 0};
inline const Error kNoFork{Kind::kUnavailable, "cannot start a process", "nvidia-cuda-mps-control", 11};

// Feeds events to one supervisor and keeps the actions of the last event.
struct Rig {
  Supervisor s;
  SupervisorSettings settings;
  MonoTime now{1h};
  std::vector<Action> last;

  Rig& feed(const Event& event) {
    last = step(s, event, now, settings);
    return *this;
  }
  Rig& pass(Duration d) {
    now += d;
    return *this;
  }
  Rig& wake() {
    if (const auto at = wake_at(s)) now = std::max(now, *at);
    return feed(Tick{});
  }
  // With the defaults that were read back last.
  Rig& answer(std::vector<ServerSeen> servers = {}) {
    return feed(Answered{std::move(servers), s.read_back.value_or(DaemonLimits())});
  }
  Rig& read(const DaemonLimits& defaults) { return feed(Answered{s.servers, defaults}); }
  Rig& failed(const Error& error) { return feed(QuestionFailed{error}); }
};

// The states that a test row can start from.
inline Rig absent() {
  return {};
}
inline Rig spawning() {
  return absent().feed(Want{kLimits});
}
inline Rig starting() {
  return spawning().feed(Spawned{});
}
inline Rig applying() {
  return starting().answer();
}
inline Rig serving() {
  return applying().read(kRead);
}
inline Rig adopted() {
  return spawning().feed(Spawned{true});
}
inline Rig mute() {
  Rig rig = serving();
  return rig.pass(5s).feed(Tick{}).failed(kMute);
}
inline Rig backing_off() {
  return serving().feed(DaemonExited{"was killed by signal 9 (Killed)"});
}
inline Rig stopping() {
  return serving().feed(StopAsked{});
}
inline Rig given_up() {
  Rig rig = spawning();
  while (rig.s.state != State::kGivenUp) {
    rig.feed(Spawned{std::unexpected(kNoFork)});
    if (rig.s.state == State::kBackingOff) rig.wake();
  }
  return rig;
}

inline std::vector<std::string> names(const std::vector<Action>& actions) {
  struct Name {
    std::string operator()(const SpawnDaemon&) const { return "spawn"; }
    std::string operator()(const Ask& action) const { return action.set ? "apply" : "ask"; }
    std::string operator()(const PingDaemon&) const { return "ping"; }
    std::string operator()(const OpenEndpoints&) const { return "open-endpoints"; }
    std::string operator()(const Quit&) const { return "quit"; }
    std::string operator()(const KillDaemon&) const { return "kill"; }
  };
  std::vector<std::string> out;
  for (const auto& action : actions) out.push_back(std::visit(Name{}, action));
  return out;
}

}  // namespace tranche::mps
