#pragma once
// What the guard does about the memory of processes on shared GPUs: a sample of who holds how much, the limits of their
// grants, and what was done so far → orders. Pure: reads no clock, signals no process. docs/internals/guard.md is this
// in words.
//
// The sum over the processes of a grant on one device counts, clients and others alike. A client that takes all that
// its limit allows shows up to 4 MiB more (docs/internals/evidence/limit-edges.md), so that much twice is no crossing.
//
// Processes that are to end are stopped first (SIGSTOP), in the callback that judged the sample: a stopped process
// allocates nothing more, and can be continued. `tranche mps` then waits for their queued GPU work and kills them
// (src/mps/pool/client_ending.h). Siblings of theirs are judged meanwhile as if they had left.
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "config/guard.h"
#include "grants/shares.h"
#include "mps/pool/terminated.h"

namespace tranche::guard {

// MPS charges a client in pages of 2 MiB and rounds its limit up; the driver's figure may be two pages above the limit.
inline constexpr Bytes kRounding{8ULL << 20};

// A pid alone may come to mean another process; with the time of its start (clock ticks since boot) it does not.
struct ProcessId {
  std::uint32_t pid = 0;
  std::uint64_t start_ticks = 0;
  friend auto operator<=>(const ProcessId&, const ProcessId&) = default;
};

// One process on one device.
struct Process {
  ProcessId id;
  Bytes memory;               // 0 when the driver would not say
  bool mps_client = false;    // by the driver's word
  std::string grant;          // "" = not known to belong to one
  bool in_container = false;  // of a pod, by its endpoint or its control group
  bool ours = false;          // the node's own: MPS servers, probes, host daemons. Never judged, never touched
  bool first = false;         // PID 1 of its container: the kernel kills all others of the container with it
  friend bool operator==(const Process&, const Process&) = default;
};

struct Device {
  std::string uuid;
  std::string pool;
  std::vector<Process> processes;
  MonoTime clients_read{};  // when the driver was last asked which of them are MPS clients
  MonoTime sampled{};       // when the driver gave these figures
  bool complete = true;     // false: the driver gave no list, or some of its processes cannot be attributed
};

using grants::GrantOnDevice;

struct Limit {
  std::string pool;
  std::string resource;
  Bytes memory;  // what the grant is worth there
  config::GuardMemory policy = config::GuardMemory::kTerminateNewest;
  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Facts {
  std::map<GrantOnDevice, Limit> limits;
  config::GuardForeignProcesses foreign_processes = config::GuardForeignProcesses::kObserve;
  // Devices that a forced change has taken from containers: what these run there beside MPS is ended, whatever the
  // policy for foreign processes.
  std::set<std::string> taken;
  // grant → whether its endpoint lets clients in, where that is known. Endpoints that others closed (a drain) are left
  // out.
  std::map<std::string, bool> endpoints;
};

struct Order {
  enum class What {
    kTell,       // over the limit and only observed
    kRefuse,     // let no new clients of the grant in
    kLetIn,      // let them in again
    kStop,       // SIGSTOP: it is not known yet whether they are MPS clients, or they run again
    kTerminate,  // SIGSTOP, then `tranche mps` ends these clients
    kKill,       // SIGKILL for a process that is not an MPS client: it has no work in flight through the server
    kContinue,   // SIGCONT for processes that were stopped and are not to end any more
    kAskToEnd,   // SIGTERM for a foreign process
    kEnd,        // SIGKILL for a foreign process that has not followed
  };
  What what = What::kTell;
  std::string grant;
  std::string device;
  std::string pool;
  std::string resource;  // "" for a foreign process without a grant
  std::string policy;    // the word of the configuration
  std::vector<Process> processes;
  Bytes sum;
  Bytes limit;
  MonoTime since{};    // when the crossing was first seen, with the processes that are to end (or the foreign process)
  bool again = false;  // kStop: they were stopped before
};
std::string_view to_string(Order::What what);

// What is remembered between samples. Only the functions below change it. A time of 0 is "not yet".
struct Memory {
  struct Process {
    MonoTime since{};    // first seen while its grant holds too much
    bool asked = false;  // `tranche mps` is ending it
    int refusals = 0;    // of `tranche mps`, in a row
    MonoTime not_before{};
    Bytes memory;  // at the last sample
  };
  struct Ended {
    std::uint64_t start_ticks = 0;
    MonoTime at{};
  };
  struct Over {
    MonoTime since{};
    bool told = false;
    int failures = 0;  // `tranche mps` did not carry the order out, in a row
    Bytes most;        // the largest sum seen since the crossing
    std::map<ProcessId, Process> processes;
    std::map<std::uint32_t, Ended> ended;  // by pid: the driver lists them for a moment longer
  };
  struct Stopped {
    GrantOnDevice because;
    MonoTime since{};
  };
  struct Refused {
    MonoTime asked{};
    bool failed = false;    // nobody has closed the endpoint
    MonoTime not_before{};  // of opening it
  };
  struct ForeignProcess {
    MonoTime since{};
    MonoTime asked_to_end{};
    bool ended = false;
  };
  std::map<GrantOnDevice, Over> over;
  std::map<ProcessId, Stopped> stopped;    // by the guard, and neither ended nor continued since
  std::map<std::string, Refused> refused;  // grants whose new clients are to be refused
  std::map<std::string, MonoTime>
      let_in;  // and those to let in, for as long as their endpoints may still say otherwise
  std::map<ProcessId, ForeignProcess> foreign_processes;
};

struct Verdict {
  std::vector<Order> orders;
  std::vector<std::string> without_limit;  // grants whose worth is not known
  bool open = false;                       // judge again at the next sample, even if it is the same
};

Verdict judge(const std::vector<Device>& devices, const Facts& facts, Memory& memory, MonoTime now);

// What came of a kTerminate. `clients` empty: it was not carried out.
void answered(Memory& memory, const Order& order, const std::vector<mps::Terminated>& clients, MonoTime now);

// A process has exited.
void exited(Memory& memory, const ProcessId& process);

// A kRefuse or kLetIn that nobody carried out: it is ordered again after a moment, while it is still due.
void not_admitted(Memory& memory, const Order& order, MonoTime now);

}  // namespace tranche::guard
