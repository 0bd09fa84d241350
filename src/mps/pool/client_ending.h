#pragma once
// Terminates CUDA clients of one pool without hurting the others: SIGSTOP to each process, so that it submits no more
// work; a wait in which its queued GPU work runs out; SIGKILL; then its exit is awaited. Beside busy neighbours,
// nothing visible from outside shows that a stopped client has no work in flight (docs/internals/evidence/stopping.md).
//
// `companions` are stopped with the clients and continued when the clients have exited: a container's first process,
// whose death by a stop signal would make the kernel kill the clients with their work in flight.
//
// It does not use MPS's own `terminate_client`, which kills the neighbours of tensor-core work and blocks the control
// daemon for 10 s if the client is stopped. It does not close the grant's endpoint; its caller does.
//
// If another process continues a stopped client (SIGCONT), the client is stopped again and the wait restarts, three
// times at most. Dropping this object leaves the processes stopped, which is safe for their neighbours. Loop thread
// only.
#include <functional>
#include <memory>
#include <vector>

#include "base/time.h"
#include "mps/pool/terminated.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/process/process.h"

namespace tranche::host {

struct EndRequest {
  std::vector<int> clients;
  std::vector<int> companions = {};
};

struct EndedProcesses {
  std::vector<ProcessRef> clients;
  std::vector<ProcessRef> companions = {};
};

class ClientEnding {
 public:
  struct Settings {
    Duration patience = std::chrono::seconds(2);       // between SIGSTOP and SIGKILL
    Duration exit_patience = std::chrono::seconds(5);  // between SIGKILL and the exit
  };
  using Done = std::function<void(std::vector<mps::Terminated>)>;

  // All processes are stopped when this returns. The clients must be clients of the pool. `done` runs once, in a
  // callback of its own, and may destroy this object; it never runs after this object is destroyed. One outcome for
  // each distinct client, in their order.
  ClientEnding(Loop& loop, Settings settings, const EndedProcesses& processes, Done done);
  ClientEnding(const ClientEnding&) = delete;
  ClientEnding& operator=(const ClientEnding&) = delete;

 private:
  struct Client {
    mps::Terminated outcome;
    std::unique_ptr<Process> process;  // null: nothing (more) to do
  };
  void stop(Client& client, const ProcessRef& ref);
  void hold(const ProcessRef& ref);
  void wait();
  void wait_is_over();
  bool stop_those_that_run_again();
  void kill();
  void exited(int pid);
  void finish_if_done();
  void finish();

  Loop& loop_;
  Settings settings_;
  Done done_;
  std::vector<Client> clients_;
  std::vector<std::unique_ptr<Process>> companions_;
  MonoTime stopped_{};
  MonoTime first_stopped_{};
  bool killed_ = false;
  int stops_ = 0;
  Timer timer_{loop_};
};

}  // namespace tranche::host
