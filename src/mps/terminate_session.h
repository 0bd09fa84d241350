#pragma once
// One session with the control daemon that ends clients through MPS, and what became of each. The daemon drains a
// client's work before it answers (measured: 11-13 ms), and one process may be asked for at several servers: it is
// terminated when one of them says so. Between two commands stands one whose answer cannot be mistaken for theirs
// ("10.0"), because replies follow each other without a mark and a refusal may have several lines. Pure; fuzzed.
#include <string>
#include <string_view>
#include <vector>

#include "mps/terminated.h"

namespace tranche::mps {

struct TerminateAsked {
  int server = 0;
  int pid = 0;
  friend bool operator==(const TerminateAsked&, const TerminateAsked&) = default;
};

// Every process at every server; the pids without repetition, in the order given.
std::vector<TerminateAsked> terminations(const std::vector<int>& servers, const std::vector<int>& pids);
std::vector<std::string> terminate_session(const std::vector<TerminateAsked>& asked);  // the commands

// One outcome for each distinct pid, in the order of `asked`. What the daemon did not get to is timed out.
std::vector<Terminated> parse_terminate_session(const std::vector<TerminateAsked>& asked, std::string_view text);

// The same outcome for all.
std::vector<Terminated> all_terminated_as(const std::vector<int>& pids, TerminateOutcome outcome,
                                          const std::string& note);

}  // namespace tranche::mps
