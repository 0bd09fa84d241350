#pragma once
// How a `tranche probe --json` ended, as a verdict about the MPS daemon that it started CUDA through. Careful in one
// direction: whatever can have another cause than the daemon is no wedge, because tenants are ended for a wedge. Pure;
// fuzzed.
#include <string>
#include <string_view>

#include "mps/proof/proof.h"

namespace tranche::mps {

struct ProbeEnded {
  int exit_code = 0;        // -1 = ended by a signal, or killed at the deadline
  bool timed_out = false;   // by us
  std::string_view output;  // everything that it printed
  std::size_t clients = 0;  // of the pool when it was started
};

struct ProofReading {
  ProofVerdict verdict = ProofVerdict::kWedged;
  std::string reason;  // "" when it passed
  friend bool operator==(const ProofReading&, const ProofReading&) = default;
};
ProofReading read_proof(const ProbeEnded& probe);

}  // namespace tranche::mps
