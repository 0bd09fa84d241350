#pragma once
// Terminates CUDA clients of one pool without hurting the others: SIGSTOP to each process, so that it submits no more
// work; a wait in which its queued GPU work runs out; SIGKILL; then its exit is awaited. Beside busy neighbours,
// nothing visible from outside shows that a stopped client has no work in flight (docs/internals/evidence/stopping.md).
//
// The kernel kills all processes of a container together with its first. If that one is terminated, so are the clients
// of the container (KilledWith), also those that connected during the wait.
//
// It does not use MPS's own `terminate_client`, which kills the neighbours of tensor-core work and blocks the control
// daemon for 10 s if the client is stopped. It does not close the grant's endpoint; its caller does.
//
// The stop matters where the keeper does not hold the client (mps/keeper; docs/internals/decisions/0020-keeper.md):
// then its death at work ends its neighbours. A client that another process continues (SIGCONT) is killed at work when
// its time is up: a helper that does so in a loop beats any number of stops, and the keeper makes such a death
// harmless. Loop thread only.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "mps/protocol/requests.h"
#include "os/files/files.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mps {

// The file: one line a process, `<pid> <start ticks>`. An entry stays until the process has exited. Pure; fuzzed:
// parse ∘ render is the identity.
inline constexpr const char* kEndingFile = "ending.txt";

using EndingProcesses = std::set<os::ProcessRef>;

std::string render_ending(const EndingProcesses& processes);
EndingProcesses parse_ending(std::string_view text);  // lines with an unknown format are skipped

// By the pid of a client that has exited, and that its server still has (mps/relay/relay.h): the processes to
// end in its place. Empty: none was found.
using Heirs = std::map<int, std::vector<os::ProcessRef>>;

// The living clients, of all pools, that the kernel kills together with these processes, because one of these is the
// first process of a container. From the first call on, that container has no new clients. Absent: none of these is.
using KilledWith =
    std::function<std::optional<std::vector<os::ProcessRef>>(const std::vector<os::ProcessRef>& processes)>;

// The terminations of clients that are in progress, for all pools of one `tranche mps`. They continue even if the pool
// is removed. Each process is recorded in `<mps-root>/ending.txt` before it is stopped, so that no process stays
// stopped if this program is killed: the next start finishes the terminations. Loop thread only.
class Endings {
 public:
  struct Settings {
    Duration patience = std::chrono::seconds(2);             // between SIGSTOP and SIGKILL
    Duration exit_patience = std::chrono::seconds(5);        // between SIGKILL and the exit
    KilledWith killed_with = {};                             // asked before SIGKILL; empty: no client comes meanwhile
    Duration patience_with_those = std::chrono::seconds(2);  // who came meanwhile
  };
  // One outcome for each distinct client, in their order, and for those that came meanwhile.
  using Done = std::function<void(const std::vector<Terminated>&)>;

  // `root`: the file's directory. Absent: no file is written. Destroying this object leaves the processes stopped,
  // which is safe for their neighbours; without a file, it loses what is in progress.
  explicit Endings(os::Loop& loop, std::optional<os::Dir> root = std::nullopt);
  ~Endings();
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  // All clients are stopped when this returns. They must be clients of the pool. `done` runs once, in a callback of its
  // own; it never runs after this object is destroyed. If a termination in progress already has all of the clients,
  // this one joins it, with the outcomes of all of that one's clients: a request that is repeated costs no descriptors.
  void begin(Settings settings, const std::vector<os::ProcessRef>& clients, Done done);

  // Takes up the terminations that the last run began, also of processes that were continued meanwhile: they are
  // stopped again, with the clients that the kernel kills with them. A later process with a reused pid is left alone.
  // `done` as above, also if there are none.
  void finish_left(Settings settings, Done done);
  const std::string& lost() const { return lost_; }  // why the file could not be read; "" = it was read

 private:
  class Ending;
  void keep();
  void ended(std::uint64_t id, const std::vector<Terminated>& outcomes);

  os::Loop& loop_;
  std::optional<os::Dir> root_;
  std::string lost_;
  EndingProcesses left_;
  EndingProcesses written_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Ending>> endings_;
};

}  // namespace tranche::mps
