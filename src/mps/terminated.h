#pragma once
// What became of a client that was to be ended through MPS (`terminate_client SERVER PID`), which drains its work first
// so that nobody else on the GPU is hurt (measured: 11-13 ms, neighbours survive). Plain values.
#include <string>
#include <string_view>

namespace tranche::mps {

enum class TerminateOutcome {
  kTerminated,  // MPS says that it is drained; the process itself may live on
  kNotAClient,  // no server knows this process (any more)
  kRefused,     // MPS answered with an error
  kTimedOut,    // no answer in time
};

inline std::string_view to_string(TerminateOutcome outcome) {
  switch (outcome) {
    case TerminateOutcome::kTerminated:
      return "terminated";
    case TerminateOutcome::kNotAClient:
      return "not-a-client";
    case TerminateOutcome::kRefused:
      return "refused";
    case TerminateOutcome::kTimedOut:
      return "timed-out";
  }
  return "refused";
}

struct Terminated {
  int pid = 0;
  TerminateOutcome outcome = TerminateOutcome::kTerminated;
  std::string note;  // MPS's own words when it refused
  friend bool operator==(const Terminated&, const Terminated&) = default;
};

}  // namespace tranche::mps
