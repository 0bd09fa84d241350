#pragma once
// What the guard does about the memory of processes on shared GPUs: a sample of who holds how much, what their grants
// are worth, and what was done so far → orders. Pure: reads no clock, ends nobody. docs/guard.md is this in words.
//
// The sum over the processes of a grant on one device counts, clients and others alike. A client that takes all that
// its limit allows shows up to 4 MiB more (docs/evidence/limit-edges.md), so that much twice is no crossing.
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
#include "mps/terminated.h"

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
  bool in_container = false;  // of a pod, by its door or its control group
  bool ours = false;          // the node's own: MPS servers, probes, host daemons. Never judged, never touched
  friend bool operator==(const Process&, const Process&) = default;
};

struct Device {
  std::string uuid;
  std::string pool;
  std::vector<Process> processes;
  MonoTime clients_read{};  // when the driver was last asked which of them are MPS clients
};

using GrantOnDevice = std::pair<std::string, std::string>;  // grant, device UUID

struct Limit {
  std::string pool;
  std::string resource;
  Bytes memory;  // what the grant is worth there
  config::GuardMemory policy = config::GuardMemory::kTerminateNewest;
  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Facts {
  std::map<GrantOnDevice, Limit> limits;
  config::GuardStrangers strangers = config::GuardStrangers::kObserve;
  // Devices that a forced change has taken from containers: what these run there beside MPS is ended, whatever the
  // policy for strangers.
  std::set<std::string> taken;
  // grant → whether its door lets clients in, where that is known. Doors that others closed (a drain) are left out.
  std::map<std::string, bool> doors;
};

struct Order {
  enum class What {
    kTell,       // over the limit and only observed
    kRefuse,     // let no new clients of the grant in
    kLetIn,      // let them in again
    kTerminate,  // end these clients through MPS
    kKill,       // SIGKILL for a process with nothing in flight through the server: no MPS client, or terminated by MPS
    kAskToEnd,   // SIGTERM for a stranger
    kEnd,        // SIGKILL for a stranger that has not followed
  };
  What what = What::kTell;
  std::string grant;
  std::string device;
  std::string pool;
  std::string resource;  // "" for a stranger without a grant
  std::string policy;    // the word of the configuration
  std::vector<Process> processes;
  Bytes sum;
  Bytes limit;
  MonoTime since{};  // when the crossing was first seen, with the processes that are to end (or the stranger)
};
std::string_view to_string(Order::What what);

// What is remembered between samples. Only the three functions below change it. A time of 0 is "not yet".
struct Memory {
  struct Process {
    MonoTime since{};  // first seen while its grant holds too much
    int refusals = 0;  // of MPS, in a row
    MonoTime not_before{};
    MonoTime terminated{};  // by MPS: its memory comes back at once (measured), its process may live on
  };
  struct Over {
    MonoTime since{};
    bool told = false;
    bool asked = false;  // MPS is carrying an order out
    MonoTime settled{};  // the last answer: figures from before it do not count
    int failures = 0;    // nobody carried the order out, in a row
    MonoTime not_before{};
    std::map<ProcessId, Process> processes;
  };
  struct Refused {
    MonoTime asked{};
    bool failed = false;    // nobody has closed the door
    MonoTime not_before{};  // of opening it
  };
  struct Stranger {
    MonoTime since{};
    MonoTime asked_to_end{};
    bool ended = false;
  };
  std::map<GrantOnDevice, Over> over;
  std::map<std::string, Refused> refused;  // grants whose new clients are to be refused
  std::map<std::string, MonoTime> let_in;  // and those to let in, for as long as their doors may still say otherwise
  std::map<ProcessId, Stranger> strangers;
};

struct Verdict {
  std::vector<Order> orders;
  std::vector<std::string> without_limit;  // grants whose worth is not known
  bool open = false;                       // judge again at the next sample, even if it is the same
};

// sampled: when the driver gave these figures.
Verdict judge(const std::vector<Device>& devices, const Facts& facts, Memory& memory, MonoTime sampled, MonoTime now);

// What came of a kTerminate. `clients` empty: nobody carried it out.
void answered(Memory& memory, const Order& order, const std::vector<mps::Terminated>& clients, MonoTime now);

// A kRefuse or kLetIn that nobody carried out: it is ordered again after a moment, while it is still due.
void not_admitted(Memory& memory, const Order& order, MonoTime now);

}  // namespace tranche::guard
