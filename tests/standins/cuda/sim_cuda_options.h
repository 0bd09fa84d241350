#pragma once
// The options of sim-cuda's command line, and the commands that it reads from stdin. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tranche::sim {

inline constexpr const char* kSimCudaHelp =
    R"(sim-cuda: a CUDA process on the simulated node $TRANCHE_SIM_NODE.
  --allocate SIZE     allocate this much (repeatable: steps); SIZE is a number and K, M, G or MiB, GiB
  --grow SIZE/s       then go on allocating at this rate
  --grow-every N      a step of it every N milliseconds (50)
  --kernel-ms N       keep kernels of N milliseconds in flight (fractions allowed)
  --queue N           that many at a time (1)
  --tensor            all its kernels use tensor cores: terminate_client kills the neighbours of long ones in flight
  --fault             use an illegal address after the allocations
  --all-devices       open a context on every visible GPU, not only the first
  --seconds N         live that long (0)
  --hold              live until a signal or an error
  --stdin             obey lines: alloc SIZE | free SIZE | launch MS [N] | sync | fault | info | exit
  --report-every S    a report line every S seconds
  --on-term S:FILE    at SIGTERM launch nothing more, wait for the queue, write FILE in pieces over S seconds, exit with 0
  --catch-term        at SIGTERM go on as before
  --stay              live on after an error, as a program that does not look at its errors
Exit status: 0; 2 usage; 12 out of memory; 20 no GPU; 46 busy or unavailable; 70 illegal address; 71 launch failed;
80 not permitted; 85…90 the MPS errors 805…810; 99 another error.
)";

// Like a program that saves a checkpoint before it exits.
struct OnTerm {
  std::int64_t seconds_ns = 0;
  std::string file;
};

// FILE has this many lines, "part 1 of 64" to "part 64 of 64", and kSavedEnd as its last one.
inline constexpr int kSavedParts = 64;
inline constexpr const char* kSavedEnd = "complete";

struct SimCudaOptions {
  std::vector<std::uint64_t> allocations;
  std::uint64_t grow_per_second = 0;
  std::int64_t grow_every_ns = 50'000'000;
  std::int64_t kernel_ns = 0;
  std::int64_t queue = 1;
  std::int64_t seconds_ns = 0;
  std::int64_t report_ns = 0;
  std::optional<OnTerm> on_term;  // without it and catch_term, SIGTERM ends the process immediately
  bool catch_term = false;
  bool tensor = false;
  bool fault = false;
  bool all_devices = false;
  bool hold = false;
  bool stdin_commands = false;
  bool stay = false;
  bool help = false;
};
std::optional<SimCudaOptions> parse_sim_cuda_options(const std::vector<std::string>& words, std::string* problem);

struct SimCudaLine {
  std::string verb;  // "" if the line is invalid
  std::uint64_t bytes = 0;
  std::int64_t kernel_ns = 0;
  std::int64_t count = 1;
};
SimCudaLine parse_sim_cuda_line(const std::string& line);

std::optional<std::uint64_t> parse_size(std::string text);  // "3000M", "1.5G", "4096"

}  // namespace tranche::sim
