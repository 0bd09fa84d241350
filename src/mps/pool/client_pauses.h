#pragma once
// Pauses clients that react to the stop signal of their container, in a handler or in a thread that waits for it. Such
// a client may exit in its reaction (Python's sys.exit, the handlers that LLVM installs), and its GPU work in flight
// would kill its neighbours. Each is stopped (SIGSTOP) before the signal is sent, for as long as its queued GPU work
// may take, and continues when the signal is pending: it then reacts before it queues further work. Only its first
// thread does so for certain; another may queue work in the microseconds before the process exits.
//
// A client continues without the signal if that does not come within kSignalPatience: a launcher may keep it.
// Destroying this object leaves the clients stopped.
//
// The processes of a container whose clients are about to be ended are paused as well, while its first process is
// searched for: until leave() or resume(). Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/process/process.h"

namespace tranche::host {

// Between the end of the patience and SIGCONT, while the signal is not pending. After the preStop program, SIGTERM
// follows within 0.2 s (tests/cluster/run stopping).
inline constexpr Duration kSignalPatience = std::chrono::seconds(1);

struct PauseRequest {
  std::string owner;  // of the clients: reads whether their signals are pending delay those of no other owner
  std::vector<ProcessRef> clients;
  int signal = 0;                               // 0: not known; SIGTERM is assumed
  Duration patience = std::chrono::seconds(2);  // for queued GPU work
};

class ClientPauses {
 public:
  // `on_change` runs inside begin() before a client is stopped, inside leave() and resume(), and after a client has
  // continued or exited: clients() has changed.
  ClientPauses(Loop& loop, std::function<void()> on_change) : loop_(loop), on_change_(std::move(on_change)) {}
  ClientPauses(const ClientPauses&) = delete;
  ClientPauses& operator=(const ClientPauses&) = delete;

  // All clients are stopped when this returns. A client that is paused already stays so for its first patience, and its
  // wait for the signal begins again. `on_idle` runs once, in a callback of its own, when each of them has had its
  // patience or has exited: the signal may be sent now. It never runs after this object is destroyed. It may be empty.
  void begin(const PauseRequest& request, std::function<void()> on_idle);
  // Forgets these processes without SIGCONT: a termination has begun, and they must stay stopped until SIGKILL.
  void leave(const std::vector<ProcessRef>& processes);
  // Those that are paused continue now.
  void resume(const std::vector<ProcessRef>& processes);
  std::vector<ProcessRef> clients() const;

 private:
  struct Paused {
    ProcessRef ref;
    std::string owner;
    int signal = 0;
    MonoTime idle_at{};    // its queued work is over
    MonoTime until{};      // it continues also without the signal
    MonoTime looked_at{};  // when it was last read whether the signal is pending
    bool pending = false;  // the signal
    bool exited = false;   // to be forgotten
    std::unique_ptr<Process> process = {};
  };
  struct Wait {
    std::vector<ProcessRef> clients;
    std::function<void()> on_idle;
  };
  bool is_busy(const ProcessRef& client) const;
  MonoTime next_look(const std::string& owner) const;
  void look();  // which signals are pending
  void turn();
  void arm();

  Loop& loop_;
  std::function<void()> on_change_;
  std::vector<Paused> paused_;
  std::vector<Wait> waits_;
  std::map<std::string, MonoTime> next_looks_;  // by owner
  Timer timer_{loop_};
};

}  // namespace tranche::host
