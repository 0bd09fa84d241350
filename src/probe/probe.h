#pragma once
// A small GPU program that reports what a process gets here: which GPU, how many SMs, how much memory, whether it
// computes right and how fast. Started inside a grant it proves the grant; on a bare node it proves the node. Every
// CUDA call blocks for as long as the driver likes (an MPS daemon may keep a client waiting indefinitely), so run it as
// a process of its own with a deadline (main.h). It ends with no work in flight, since that would hurt its neighbours
// under MPS. One thread.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace tranche::probe {

// Whether this process is an MPS client. The driver does not say, so this is evidence, not knowledge: starting CUDA
// under MPS leaves the process with SOCK_SEQPACKET connections to the server (two, to abstract names, on driver 580);
// without MPS it leaves none.
struct MpsSign {
  std::string pipe_directory;         // where this process looks for a daemon
  bool control_socket = false;        // there is a socket named `control`
  bool connected = false;             // starting CUDA made connections of the kind that MPS uses
  std::vector<std::string> peers;     // what they lead to; "@…" is an abstract name
  std::vector<std::string> settings;  // "CUDA_MPS_…=…" of this process
};

// The packet connections of this process to local sockets: what they lead to, by inode.
std::map<unsigned long, std::string> local_connections();

MpsSign look_for_mps(const std::map<unsigned long, std::string>& before);  // CUDA started

struct ProbeOptions {
  std::string device;                                 // "" = the first visible; an index ("0") or a UUID ("GPU-…")
  std::vector<Bytes> allocate;                        // tried in order and kept until the end
  bool find_limit = false;                            // the largest single allocation, by bisection
  Duration run_for = std::chrono::milliseconds(250);  // of computing; 0 = none
  std::uint32_t blocks = 0;                           // per launch; 0 = as many as there are SMs
  std::uint32_t queue = 16;                           // launches before each wait for them
  bool tensor_cores = false;                          // compute on them; kUnsupported before compute capability 8.0
  std::function<bool()> stop;                         // asked between launches; true ends the computing early
  std::function<void(const char* stage)> on_stage;    // "starting CUDA" …; "computing": launches are in flight
};

struct Allocation {
  Bytes asked;
  bool granted = false;
  std::string error;  // "CUDA_ERROR_OUT_OF_MEMORY"
};

struct Throughput {
  double blocks_per_second = 0;
  double seconds = 0;
  std::uint64_t launches = 0;
  std::uint32_t blocks_per_launch = 0;
  std::uint32_t iterations = 0;  // per block: figures compare only at the same number
  bool tensor_cores = false;
};

struct ProbeReport {
  std::string library;  // path of libcuda
  int driver_cuda = 0;  // 13000
  int visible_devices = 0;
  int device_index = 0;
  std::string device_name;
  std::string device_uuid;  // "GPU-…", or "MIG-…" without its MIG form: as CUDA gives it
  int capability_major = 0;
  int capability_minor = 0;
  MpsSign mps;
  std::uint32_t sms_by_attribute = 0;  // what the driver says this process may use
  std::uint32_t sms_seen = 0;          // distinct SMs that blocks really ran on
  Bytes memory_total;
  Bytes memory_free;  // right after the context was made
  std::optional<Bytes> largest_allocation;
  std::vector<Allocation> allocations;
  std::uint64_t checked_words = 0;  // written by the GPU and read back
  std::uint64_t wrong_words = 0;
  std::optional<Throughput> throughput;
  Duration init_time{};
  Duration context_time{};
  Duration compile_time{};
};

// `while_alive` runs with the finished report while the context and the allocations still stand.
Result<ProbeReport> run_probe(const ProbeOptions& options,
                              const std::function<void(const ProbeReport&)>& while_alive = {});

std::string to_text(const ProbeReport& report);
std::string to_json(const ProbeReport& report);  // one object, indented; sizes in bytes, times in milliseconds

// "connected", "limits set" or "no sign", and why one may think so.
std::string mps_verdict(const MpsSign& sign);

}  // namespace tranche::probe
