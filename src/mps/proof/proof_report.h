#pragma once
// Turns the result of `tranche probe --json` into a verdict about the MPS daemon that it connected to. Conservative: a
// failure that can have another cause than the daemon does not count as a wedge, because a wedge terminates tenants.
// Pure; fuzzed.
#include <string>
#include <string_view>

#include "mps/proof/proof.h"

namespace tranche::mps {

struct ProbeEnded {
  int exit_code = 0;        // -1 = killed by a signal, or by us at the deadline
  bool timed_out = false;   // by us
  std::string_view output;  // everything that the program printed
  std::size_t clients = 0;  // of the pool, when the probe started
};

struct ProofReading {
  ProofVerdict verdict = ProofVerdict::kWedged;
  std::string reason;  // "" if it passed
  friend bool operator==(const ProofReading&, const ProofReading&) = default;
};
ProofReading read_proof(const ProbeEnded& probe);

}  // namespace tranche::mps
