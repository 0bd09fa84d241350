#pragma once
// The outcome of terminating a client: the process is stopped (SIGSTOP), its queued GPU work runs out, and then it is
// killed, so that no neighbour on the GPU is hurt (docs/internals/evidence/stopping.md). Plain values.
#include <chrono>
#include <string>
#include <string_view>

#include "base/enum_names.h"

namespace tranche::mps {

enum class TerminateOutcome {
  kTerminated,  // it was stopped and killed, and has exited
  kNotAClient,  // it has already exited, or the pool's servers do not know it
  kRefused,     // the kernel did not permit stopping it
  kTimedOut,    // it did not exit in time
};

inline std::string_view to_string(TerminateOutcome outcome) {
  return enum_name<TerminateOutcome::kTimedOut>(outcome, {"terminated", "not-a-client", "refused", "timed-out"});
}

struct Terminated {
  int pid = 0;
  TerminateOutcome outcome = TerminateOutcome::kTerminated;
  std::string note = {};               // for people: the reason, or what was waited for
  std::chrono::milliseconds waited{};  // from SIGSTOP to SIGKILL
  friend bool operator==(const Terminated&, const Terminated&) = default;
};

}  // namespace tranche::mps
