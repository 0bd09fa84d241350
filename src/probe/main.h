#pragma once
// `tranche probe` as a process: a deadline for every stage, an orderly end on SIGTERM and SIGINT (nothing in flight:
// dying with work in flight can kill the neighbours under MPS), a report on stdout, words on stderr.
#include <signal.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "os/loop/loop.h"
#include "probe/probe.h"

namespace tranche::probe {

// Makes this process what a container with a grant is to the node: a mount namespace of its own, in which the grant's
// endpoint is all of MPS there is, at the place where containers have it, and a different user if asked for. By that
// mount the guard knows whose process it is. For proving a grant from inside without a container runtime (`tranche
// verify --deep`). Needs CAP_SYS_ADMIN, and for a user CAP_SETUID.
struct Container {
  std::string endpoint;               // the grant's directory, as this process sees it; "" = the process stays as it is
  std::optional<std::uint32_t> user;  // and group
};
inline constexpr const char* kRunDirectory = "/run/tranche";  // must exist: the mount is made below it

struct ProbeCliOptions {
  ProbeOptions probe;
  Container container;  // what the process becomes first
  bool json = false;
  bool stages = false;                           // each on stderr as it begins
  bool hold = false;                             // after the report, keep context and allocations until a signal
  Duration deadline = std::chrono::seconds(30);  // for each stage that should be quick; passing it ends the process
};

// 0 = computed right, 1 = CUDA failed or answers were wrong, 2 = a device that is not there, 4 = the process could not
// become what --endpoint and --as-user say. Blocks SIGTERM and SIGINT in the calling thread; call it from the process's
// only thread.
int probe_main(const ProbeCliOptions& options, std::FILE* out, std::FILE* err);

// For the other programs that make CUDA calls.

// A CUDA call that hangs cannot be cancelled: all that is left is to report the stage and to end the process, with
// status 1.
class Watchdog {
 public:
  Watchdog(std::string program, std::FILE* err);  // the name before the message: "tranche probe"
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void enter(const char* stage, std::optional<Duration> allowance);  // absent = no limit

 private:
  const std::string program_;
  std::FILE* const err_;
  std::unique_ptr<os::Loop> loop_;
  os::Timer timer_{*loop_};  // of the stage; on the loop's thread only
  std::thread thread_;
};

sigset_t ending_signals();     // SIGTERM and SIGINT
void block_ending_signals();   // in the calling thread, and in those that it starts
bool ending_signal_pending();  // one that is blocked has arrived

}  // namespace tranche::probe
