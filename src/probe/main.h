#pragma once
// `tranche probe` as a process: a deadline for every stage, an orderly end on SIGTERM and SIGINT (nothing in flight:
// dying with work in flight can kill the neighbours under MPS), a report on stdout, words on stderr.
#include <cstdio>
#include <optional>

#include "probe/container.h"
#include "probe/probe.h"

namespace tranche::probe {

struct ProbeCliOptions {
  ProbeOptions probe;
  Container container;  // what the process becomes first
  bool json = false;
  bool stages = false;                           // each on stderr as it begins
  bool hold = false;                             // after the report, keep context and allocations …
  std::optional<Duration> hold_for;              // … this long; absent = until a signal
  Duration deadline = std::chrono::seconds(30);  // for each stage that should be quick; passing it ends the process
};

// 0 = computed right, 1 = CUDA failed or answers were wrong, 2 = a device that is not there, 4 = the process could not
// become what --endpoint and --as-user say. Blocks SIGTERM and SIGINT in the calling thread; call it from the process's
// only thread.
int probe_main(const ProbeCliOptions& options, std::FILE* out, std::FILE* err);

}  // namespace tranche::probe
