#pragma once
// Only a real CUDA start through the daemon's socket proves that a pool serves: a daemon can answer every question
// while each new client hangs in cuInit. This decides when such a start is tried, whether the pool may serve meanwhile,
// and what is ended when it fails: all clients, then the servers, then the daemon, each followed by another proof.
// Pure; mps carries it out beside the supervisor, which knows nothing of it. Every arrow is a row in
// proof_test.cpp.
//
// A proof that fails once is repeated before anything is ended: ending clients on a false alarm would be worse than
// the wait.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"

namespace tranche::mps {

struct ProofSettings {
  Duration every = std::chrono::minutes(10);           // 0 = no proofs at all
  Duration deadline = std::chrono::seconds(10);        // for each stage of the start
  Duration lost_after = std::chrono::seconds(30);      // a proof of which nobody tells the end
  Duration settle = std::chrono::milliseconds(200);    // from a doubt, or an act, to the proof
  Duration doubt_every = std::chrono::seconds(10);     // deaths that hurt nobody cause no more proofs than that
  Duration again = std::chrono::seconds(1);            // after one that failed
  Duration fault_patience = std::chrono::seconds(30);  // how long a server may handle a fault
  Duration step_patience = std::chrono::seconds(5);    // for a step to be done
};

enum class ProofState { kOff, kUnknown, kRunning, kProven, kFailed };
std::string_view to_string(ProofState state);  // "off", "unknown", "running", "proven", "failed"

enum class ProofVerdict {
  kPassed,
  kInconclusive,  // it says nothing about the daemon: no CUDA library here, no memory left, no room for a client
  kUnfit,         // new clients fail, and time or the GPU's owner must mend it: a fault being handled, wrong answers
  kWedged,        // it hung or failed where a sound daemon does not
};

enum class Step { kNone, kClients, kServers, kDaemon };  // what is being ended
std::string_view to_string(Step step);                   // "", "clients", "servers", "daemon"

struct PoolServes {};  // its limits are in force
struct PoolLeft {      // it does not (now)
  enum class Why {
    kDaemon,  // its daemon process ended, or is being ended
    kSame,    // the same process, which is asked anew: it is proven again, and failures in a row go on counting
    kLimits,  // only its limits change: what was proven still holds
  };
  Why why = Why::kDaemon;
};
enum class DoubtKind { kDeath, kFault };  // a client ended without closing its contexts; a fault, a server's exit
struct Doubt {
  DoubtKind kind = DoubtKind::kFault;
  std::string why;
};
struct FaultHandled {  // whether a server of the pool is in FAULT now
  bool now = false;
};
struct ProofEnded {
  ProofVerdict verdict = ProofVerdict::kPassed;
  std::string reason;
  bool has_clients = false;  // of the pool, the proof aside
  bool has_servers = false;
};
struct StepDone {};
struct ProofTick {};
using ProofEvent = std::variant<PoolServes, PoolLeft, Doubt, FaultHandled, ProofEnded, StepDone, ProofTick>;

struct StartProof {
  friend bool operator==(const StartProof&, const StartProof&) = default;
};
struct CancelProof {
  friend bool operator==(const CancelProof&, const CancelProof&) = default;
};
struct EndStep {
  Step step = Step::kNone;
  std::string why;
  friend bool operator==(const EndStep&, const EndStep&) = default;
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
  std::uint64_t clients_ended = 0;  // times that all clients were ended; likewise below
  std::uint64_t servers_ended = 0;
  std::uint64_t daemons_ended = 0;

  bool serves = false;
  bool running = false;
  bool doubted = false;  // while one ran: another follows
  int wedged = 0;        // in a row
  std::optional<MonoTime> due;
  std::optional<MonoTime> last_started;
  std::optional<MonoTime> lost_at;
  std::optional<MonoTime> step_due;
  std::optional<MonoTime> fault_since;
  friend bool operator==(const Proof&, const Proof&) = default;
};

struct ProofStepped {
  Proof next;
  std::vector<ProofAction> actions;
};
ProofStepped step(Proof state, const ProofEvent& event, MonoTime now, const ProofSettings& settings);
std::optional<MonoTime> wake_at(const Proof& state, const ProofSettings& settings);

// What a pool is called whose daemon serves: "serving", "proving" (no verdict yet), "wedged".
std::string_view pool_word(const Proof& state);

}  // namespace tranche::mps
