#pragma once
// Private to mps/daemon/supervisor: handles one event. It holds the arguments of step() and writes into its result. The
// event handlers are in supervisor.cpp, the transitions that they share in supervisor_moves.cpp.
#include <string>

#include "mps/daemon/supervisor.h"

namespace tranche::mps {

class Turn {
 public:
  Turn(Stepped& out, MonoTime now, const SupervisorSettings& settings)
      : s_(out.next), actions_(out.actions), now_(now), settings_(settings) {}

  void on(const Start& event);
  void on(const Spawned&);
  void on(const SpawnFailed& event);
  void on(const DaemonExited& event);
  void on(const Answered& event);
  void on(const LimitsApplied& event);
  void on(const LimitsRead& event);
  void on(const ServerLimitsApplied& event);
  void on(const ServerLogged& event);
  void on(const ClientLogged&);
  void on(const AdmissionLimitsSet& event);
  void on(const AdmissionLimitsUnknown& event);
  void on(const QuestionFailed& event);
  void on(const QuestionWaits& event);
  void on(const QuestionBegun& event);
  void on(const Pinged&);
  void on(const PingFailed& event);
  void on(const PingSkipped&);
  void on(const LookNow&);
  void on(const Replace& event);
  void on(const Tick&);
  void on(const StopAsked&);
  void on(const DesiredChanged& event);

 private:
  void enter(State state, std::string reason);
  void enter_backing_off(const std::string& why, Duration delay);
  void enter_stopping();
  void ended();

  QuestionId open_question(Duration deadline);
  bool is_open(QuestionId id);
  void ask();
  void apply_limits();
  void read_limits();
  bool apply_to_next_server();  // false: every server has them, or refused them
  void ping();
  void ping_later();

  void begin();  // moves towards serving from the daemon's current state
  void serve();
  void still_serving();
  void look_within(Duration time);
  void reconfigure();
  void still_mute(const Error& error);
  void fell_mute(const Error& error);
  void configuring_failed(const std::string& why);
  void fail(const std::string& why);
  void kill();
  void escalate();
  void on_timer();

  void note_servers(std::vector<ServerSeen> servers);
  void forget_daemon();
  Duration next_delay();
  void forget_failures_when_stable();

  Supervisor& s_;
  std::vector<Action>& actions_;
  MonoTime now_;
  const SupervisorSettings& settings_;
};

// A note for the operator about a serving pool.
std::string serving_note(const Supervisor& s);

}  // namespace tranche::mps
