#pragma once
// Replies of `tranche mps` to requests (requests.h): one line of JSON, {"ok":true,…} or {"ok":false,"error":"…",…}.
// Pure; fuzzed.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/result.h"
#include "base/time.h"

namespace tranche::mps {

// The outcome of terminating a client: the process is stopped (SIGSTOP), its queued GPU work runs out, and then it is
// killed, so that no neighbour on the GPU is hurt (docs/internals/evidence/stopping.md). Plain values.
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

// To `terminate`.
struct EndReply {
  std::vector<Terminated> clients = {};
  Duration took{};
};

std::string done_reply();
std::string error_reply(const Error& error);
std::string end_reply(const EndReply& reply);

// kUnavailable with the reply's text: the request was refused, or failed. kInvalid: the line is not a reply.
Status read_reply(std::string_view line);
Result<EndReply> read_end_reply(std::string_view line);

}  // namespace tranche::mps
