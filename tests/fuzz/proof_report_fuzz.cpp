// What a CUDA start printed: a verdict for every text and status; only a report of a connection passes.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/proof/proof.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::mps;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const int status : {0, 1, -1}) {
    const auto reading = read_proof({.exit_code = status, .timed_out = false, .output = text, .clients = 3});
    if (reading.verdict == ProofVerdict::kPassed && status != 0) std::abort();
    if (reading.verdict == ProofVerdict::kPassed && !reading.reason.empty()) std::abort();
    if (reading.reason.size() > 1024) std::abort();
  }
  return 0;
}
