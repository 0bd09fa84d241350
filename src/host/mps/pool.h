#pragma once
// One pool alive: carries out what the supervisor (mps/supervisor.h) decides for one control daemon and tells it what
// happened. Owns the daemon's process, its open question, its log and its directories. It decides nothing itself.
//
// Dropping a Pool that was not stopped leaves the daemon running, for the next start of this program to adopt: clients
// outlive us. Loop thread only.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocate/grant.h"
#include "base/result.h"
#include "host/loop/loop.h"
#include "host/mps/binary.h"
#include "host/mps/control_client.h"
#include "host/mps/log_tail.h"
#include "host/mps/orphans.h"
#include "host/mps/pool_dirs.h"
#include "host/process/process.h"
#include "mps/log_lines.h"
#include "mps/supervisor.h"

namespace tranche::host {

struct PoolSettings {
  std::string id;
  std::vector<std::string> devices;  // UUIDs
  allocate::Paths paths;
  ControlBinary binary;
  bool multiuser = false;  // start it with -M
  mps::SupervisorSettings supervisor;
  std::uint64_t seed = 0;
};

// What has happened since this program started; for metrics.
struct PoolCounters {
  std::uint64_t clients = 0;       // let in or waiting to be
  std::uint64_t fatal_faults = 0;  // a client broke the GPU for all
  std::uint64_t fault_victims = 0;
  std::uint64_t servers = 0;  // started
  std::uint64_t clients_refused = 0;
};

class Pool {
 public:
  struct Callbacks {
    std::function<void(const mps::Supervisor& before, const mps::Supervisor& after)>
        on_change;                                    // what people see changed
    std::function<void(const mps::LogLine&)> on_log;  // lines that say something (LogWhat other than kOther)
  };
  static Result<std::unique_ptr<Pool>> open(Loop& loop, PoolSettings settings, Callbacks callbacks);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void want(const mps::DaemonLimits& limits);  // start, or change what is enforced
  void stop();
  void retry();

  const mps::Supervisor& supervisor() const { return state_; }
  const PoolSettings& settings() const { return settings_; }
  const PoolCounters& counters() const { return counters_; }
  std::string pipe() const { return dirs_.pipe(); }
  pid_t daemon_pid() const { return daemon_ ? daemon_->ref().pid : 0; }
  bool gone() const;  // stopped, and no process of it is left
  // The daemon's exact environment.
  const std::map<std::string, std::string>& environment() const { return environment_; }
  ControlTarget target() const { return {settings_.binary.path, environment_}; }

 private:
  Pool(Loop& loop, PoolSettings settings, Callbacks callbacks, PoolDirs dirs);
  void feed(mps::Event event);
  void arm_timer();
  void tell_change(const mps::Supervisor& before);

  void act(const mps::SpawnDaemon&);
  void act(const mps::Ask& action);
  void act(const mps::ApplyLimits& action);
  void act(const mps::ReadLimits& action);
  void act(const mps::OpenDoors&);
  void act(const mps::Quit& action);
  void act(const mps::SignalTerm&);
  void act(const mps::SignalKill&);

  Result<bool> adopt_leftover();  // true: a daemon of ours runs and is watched now
  Status spawn();
  void daemon_ended(const ExitNote& note);
  void ask_session(mps::QuestionId id, const std::vector<std::string>& commands, Duration deadline,
                   std::function<void(const std::string&)> read);
  void ask_next_server(mps::QuestionId id, std::vector<int> left, std::vector<mps::ServerSeen> seen);
  void read_log_line(const std::string& line);

  Loop& loop_;
  PoolSettings settings_;
  Callbacks callbacks_;
  PoolDirs dirs_;
  std::map<std::string, std::string> environment_;
  mps::Supervisor state_;
  PoolCounters counters_;
  std::deque<mps::Event> events_;
  bool stepping_ = false;
  Loop::Id timer_ = 0;
  std::unique_ptr<Process> daemon_;
  std::unique_ptr<Question> question_;
  std::unique_ptr<LogTail> log_;
  Orphans orphans_;
};

}  // namespace tranche::host
