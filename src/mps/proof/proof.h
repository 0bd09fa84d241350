#pragma once
// Only a real CUDA start through the daemon's socket proves that a pool serves: a daemon can answer every question
// while each new client hangs in cuInit. This machine decides when to run such a proof, whether the pool may serve
// meanwhile, and what to terminate when it fails: all clients, then the servers, then the daemon, each followed by
// another proof. Pure; mps/pool/pool_daemon.cpp carries it out beside the supervisor, which does not know it.
// proof_test.cpp has a row for every arrow.
//
// A proof that fails once is repeated before anything is terminated: terminating clients on a false alarm would be
// worse than the wait.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/enum_names.h"
#include "base/time.h"

namespace tranche::mps {

struct ProofSettings {
  Duration every = std::chrono::minutes(10);           // 0 = no proofs at all
  Duration deadline = std::chrono::seconds(10);        // for each stage of the start
  Duration settle = std::chrono::milliseconds(200);    // from a doubt, or a step, to the proof
  Duration doubt_every = std::chrono::seconds(10);     // minimum interval of proofs after Doubt::paced
  Duration again = std::chrono::seconds(1);            // after a failed proof
  Duration fault_patience = std::chrono::seconds(30);  // how long a server may handle a fault
  Duration step_patience = std::chrono::seconds(5);    // for a step to be done
};

enum class ProofState { kOff, kUnknown, kRunning, kProven, kFailed };
ENUM_NAMES(ProofState::kFailed, "off", "unknown", "running", "proven", "failed")

enum class ProofVerdict {
  kPassed,
  kInconclusive,  // not related to the daemon: no CUDA library here, no memory left, no room for a client
  // New clients fail, but only time or the GPU's operator can fix it: a fault being handled, wrong results.
  kUnfit,
  kWedged,  // it hung, or failed in a way that a working daemon does not
};

enum class Step { kNone, kClients, kServers, kDaemon };  // what is being terminated
ENUM_NAMES(Step::kDaemon, "", "clients", "servers", "daemon")

// The result of `tranche probe --json` → a verdict about the MPS daemon that it connected to. Conservative: a failure
// that can have another cause than the daemon does not count as a wedge, because a wedge terminates tenants. Fuzzed.
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

struct PoolServes {};  // its limits are enforced
struct PoolLeft {      // it does not serve (now)
  enum class Why {
    kDaemon,  // its daemon process exited, or is being stopped
    kSame,    // the same process is configured again: it is proven again, and consecutive failures keep counting
    kLimits,  // only its limits change: the proof remains valid
  };
  Why why = Why::kDaemon;
};
struct Doubt {         // new clients may be unable to start: a fatal fault
  bool paced = false;  // or a cause that tenants can repeat: a server ended, starts fail
};
struct FaultHandled {  // whether a server of the pool is in FAULT now
  bool now = false;
};
struct ProofEnded : ProofReading {
  bool has_clients = false;  // of the pool, without the proof's own process
  bool has_servers = false;
};
struct StepDone {};
struct ProofTick {};
using ProofEvent = std::variant<PoolServes, PoolLeft, Doubt, FaultHandled, ProofEnded, StepDone, ProofTick>;

struct StartProof {};  // ProofEnded follows, unless it is cancelled
struct CancelProof {};
struct EndStep {
  Step step = Step::kNone;
};
using ProofAction = std::variant<StartProof, CancelProof, EndStep>;

struct Proof {
  ProofState state = ProofState::kUnknown;
  std::string reason = "not tried yet";
  bool trusted = false;              // the pool may serve
  std::optional<MonoTime> ended_at;  // of the last one
  Step step = Step::kNone;
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  std::uint64_t clients_ended = 0;  // times that all clients were terminated; likewise below
  std::uint64_t servers_ended = 0;
  std::uint64_t daemons_ended = 0;

  bool serves = false;
  bool running = false;
  int wedged = 0;               // consecutive
  std::optional<MonoTime> due;  // of the next; during a proof, of one that a doubt demands after it
  std::optional<MonoTime> last_started;
  std::optional<MonoTime> step_due;
  std::optional<MonoTime> fault_since;
};

std::vector<ProofAction> step(Proof& state, const ProofEvent& event, MonoTime now, const ProofSettings& settings);
std::optional<MonoTime> wake_at(const Proof& state, const ProofSettings& settings);

// The state of a pool whose daemon serves: "serving", "proving" (no verdict yet), "wedged".
std::string_view pool_word(const Proof& state);

}  // namespace tranche::mps
