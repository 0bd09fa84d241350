// `tranche probe` alone, for the tests of mps/proof: the whole program would link gRPC.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "probe/main.h"

int main(int argc, char** argv) {
  tranche::probe::ProbeCliOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") options.json = true;
    const double value = i + 1 < argc ? std::strtod(argv[i + 1], nullptr) : 0;
    const auto duration = std::chrono::duration_cast<tranche::Duration>(std::chrono::duration<double>(value));
    if (word == "--seconds") options.probe.run_for = duration;
    if (word == "--deadline") options.deadline = duration;
  }
  return tranche::probe::probe_main(options, stdout, stderr);
}
