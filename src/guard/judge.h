#pragma once
// The guard's decisions about the memory of processes on shared GPUs: a sample of how much each process holds, the
// limits of the grants, and earlier actions → orders. Pure: reads no clock, signals no process. Described in
// docs/internals/guard.md.
//
// The sum over the processes of a grant on one device counts, clients and others alike. A client that allocates up to
// its limit shows up to 4 MiB more (docs/internals/evidence/shares.md), so twice that much is tolerated.
//
// Processes that must end are first stopped (SIGSTOP), in the callback that judged the sample: a stopped process does
// not allocate, and can be continued. `tranche mps` then waits for their queued GPU work and kills them
// (src/mps/pool/client_ending.h). Meanwhile the other processes of the grant are judged as if these had left.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/time.h"
#include "base/units.h"
#include "config/model.h"
#include "grants/grant_shares.h"
#include "mps/protocol/pool_reports.h"
#include "mps/protocol/requests.h"
#include "os/process/process.h"

namespace tranche::guard {

// MPS charges a client in pages of 2 MiB and rounds its limit up; the driver's figure may be two pages above the limit.
inline constexpr Bytes kRounding{8ULL << 20};

// One process on one device.
struct Process {
  os::ProcessRef id;
  Bytes memory;               // 0 if the driver does not report it
  bool mps_client = false;    // as reported by the driver
  std::string grant;          // "" = not attributed to a grant
  bool in_container = false;  // of a pod, by its endpoint or its control group
  bool ours = false;          // belongs to the node: MPS servers, probes, host daemons. Never judged or signalled
  bool dead = false;          // it has exited, and tranche-keeper holds its memory for a few seconds more: never judged
  bool first = false;         // PID 1 of its container: the kernel kills all others of the container with it
  friend bool operator==(const Process&, const Process&) = default;
};

struct Device {
  std::string uuid;
  std::string gpu = {};  // that it is, or is a part of
  std::string pool;
  std::vector<Process> processes;
  MonoTime clients_read{};  // when the driver last listed which of them are MPS clients
  MonoTime sampled{};       // when the driver returned these figures
  bool complete = true;     // false: the driver returned no list, or some processes cannot be attributed
};

using grants::GrantOnDevice;

struct Limit {
  std::string pool;
  std::string resource;
  Bytes memory;  // the grant's limit on the device
  config::GuardMemory policy = config::GuardMemory::kTerminateNewest;
  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Inputs {
  std::map<GrantOnDevice, Limit> limits;
  config::GuardForeignProcesses foreign_processes = config::GuardForeignProcesses::kObserve;
};

struct Order {
  enum class What {
    kReport,     // over the limit, observed only
    kStop,       // SIGSTOP: not yet known whether they are MPS clients, or they run again
    kTerminate,  // SIGSTOP, then `tranche mps` ends these clients
    kKill,       // SIGKILL for a process that is not an MPS client: it has no work in flight through the server
    kContinue,   // SIGCONT for stopped processes that need not end any more
    kAskToEnd,   // SIGTERM for a foreign process
    kEnd,        // SIGKILL for a foreign process that did not exit
  };
  What what = What::kReport;
  std::string grant;
  std::string device;
  std::string pool;
  std::string resource;  // "" for a foreign process without a grant
  std::string policy;    // as in the configuration
  std::vector<Process> processes;
  Bytes sum;
  Bytes limit;
  MonoTime since{};    // when the crossing was first seen, with the processes that must end (or the foreign process)
  bool again = false;  // kStop: they had been stopped before
};
ENUM_NAMES(Order::What::kEnd, "observe", "stop", "terminate", "kill", "continue", "ask-to-end", "kill")

// State between samples. Processes that exit are taken out of `stopped`. A time of 0 is "not yet".
struct Memory {
  struct Process {
    MonoTime since{};    // first seen while its grant was over the limit
    bool asked = false;  // `tranche mps` is ending it
    int refusals = 0;    // by `tranche mps`, in a row
    MonoTime not_before{};
    Bytes memory;  // at the last sample
  };
  struct Ended {
    std::uint64_t start_ticks = 0;
    MonoTime at{};
  };
  struct Over {
    MonoTime since{};
    bool reported = false;
    int failures = 0;  // orders that `tranche mps` did not carry out, in a row
    Bytes most;        // the largest sum seen since the crossing
    std::map<os::ProcessRef, Process> processes;
    std::map<pid_t, Ended> ended;  // by pid: the driver still lists them for a moment
  };
  struct Stopped {
    GrantOnDevice because;
    MonoTime since{};
    friend bool operator==(const Stopped&, const Stopped&) = default;
  };
  using StoppedProcesses = std::map<os::ProcessRef, Stopped>;
  struct ForeignProcess {
    MonoTime since{};
    MonoTime asked_to_end{};
    bool ended = false;
  };
  std::map<GrantOnDevice, Over> over;
  StoppedProcesses stopped;  // by the guard, and neither ended nor continued since
  std::map<os::ProcessRef, ForeignProcess> foreign_processes;
};

struct Verdict {
  std::vector<Order> orders;
  std::vector<std::string> without_limit;  // grants whose limits are not known
  bool open = false;                       // judge again at the next sample, even if it is the same
};

Verdict judge(const std::vector<Device>& devices, const Inputs& inputs, Memory& memory, MonoTime now);

// The result of a kTerminate. `clients` empty: it was not carried out.
void answered(Memory& memory, const Order& order, const std::vector<mps::Terminated>& clients, MonoTime now);

// Whether a process in a container is one of NVIDIA's programs that administrators run on GPU nodes (DCGM, fabric
// manager …). A process chooses its own name, and an image the names of its programs, so that neither decides alone:
// the process must also have CAP_SYS_ADMIN in the node's user namespace, with which it controls the node anyway: the
// caller checks that.
bool has_host_daemons_name(std::string_view program);  // where /proc/<pid>/exe leads

// The part of the report of `tranche mps` that the guard uses. Fuzzed.
struct PoolProcesses {
  std::string state;
  bool has_endpoints = false;
  std::set<pid_t> own;                    // processes of the pool itself: daemon, servers, proofs
  std::map<pid_t, std::string> grant_of;  // its clients, by the endpoint through which they connected
  // The same of clients that have exited and still hold their memory (mps/relay/relay.h). The kernel may have
  // given the pid to another process.
  std::map<pid_t, std::string> remnants;
  std::map<pid_t, std::string> dead;  // the same of those that tranche-keeper still holds, for a few seconds
  friend bool operator==(const PoolProcesses&, const PoolProcesses&) = default;
};
// By pool id. `tranche mps` itself is in every pool's `own`.
std::map<std::string, PoolProcesses> pool_processes(const mps::PoolReports& reports);

// The file of processes that the guard has stopped and neither ended nor continued yet. The agent reads it at its next
// start, so that a restart does not leave a process stopped. One line per process:
// `<pid> <start ticks> <grant> <device UUID>`. Fuzzed: parse ∘ render is the identity.
std::string render_stopped(const Memory::StoppedProcesses& stopped);
Memory::StoppedProcesses parse_stopped(std::string_view text);  // ignores lines that cannot be parsed; without times

}  // namespace tranche::guard
