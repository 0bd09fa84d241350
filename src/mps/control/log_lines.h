#pragma once
// Parses the log lines of an MPS control daemon and its servers: "[YYYY-MM-DD HH:MM:SS.mmm ROLE PID] text". A daemon in
// the foreground prints both logs on its standard output; otherwise they are control.log and server.log. Only lines
// that change the known state have a kind of their own; all others are kOther. Source: docs/internals/mps-contract.md,
// "Log lines". And which client broke a pool (FaultHistory). Pure; fuzzed.
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/time.h"

namespace tranche::mps {

enum class LogWhat {
  kOther,
  kNewClient,       // pid: a client asks to connect; pid 0 = the daemon does not see the host's process ids
  kServerStarting,  // pid
  kServerReady,     // pid
  kServerExited,    // pid, number = exit status
  kClientTaken,     // pid, number = its context: the server has connected it; 0 is the process's own connection
  kContextBegan,    // pid, number = its context: it has a place of the server
  kContextEnded,    // pid, number = its context
  kClientLeft,      // pid
  kClientRefused,   // pid, number = CUDA error, such as 807
  kClientLost,      // pid, number = its context, which the process destroyed, or it died; 0 is its own connection
  kFatalCulprit,    // pid: its kernel broke the GPU for all clients; after a death, the client that noticed the error
  kFatalHandled,    // the server is in FAULT from this line on
  kFatalVictim,     // pid: torn down with the culprit, which the line also names
  kFatalException,  // the server ends
};

struct LogLine {
  int writer = 0;  // process that wrote the line
  std::string_view text;
  LogWhat what = LogWhat::kOther;
  int pid = 0;
  int number = 0;
};

// nullopt: not a log line (the continuation of a table, an empty line).
std::optional<LogLine> parse_log_line(std::string_view line);

// --- faults --------------------------------------------------------------------------------------------------------

enum class FaultKind { kFatal, kException, kUncleanExit };
ENUM_NAMES(FaultKind::kUncleanExit, "fatal", "exception", "unclean-exit")

struct Fault {
  WallTime at{};
  FaultKind kind = FaultKind::kFatal;
  int culprit = 0;           // host process id; 0 = the log names none
  std::vector<int> victims;  // excludes the culprit
  int server = 0;
  std::map<int, std::string> grants = {};  // of its processes, where they are known
  friend bool operator==(const Fault&, const Fault&) = default;
};

inline constexpr std::size_t kMostFaults = 32;  // for each pool

// Finds which client broke a pool, and which clients it affected, from the log of the pool's servers. A fatal GPU error
// names its culprit, with one measured exception: after a client died with work in flight, MPS blames a peer that did
// nothing, and only the line before ("assuming client … exit") names the client that died. MPS writes that line at
// every death, also at harmless ones, and when a client destroys a context and runs on. So a client counts as the
// culprit only if it has exited, and while the server still handles its death. The server has a thread for each
// connection, so the line may also come after the client's end (docs/internals/mps-contract.md).
class FaultHistory {
 public:
  struct Processes {
    std::function<std::string(int pid)> grant_of;  // "" = not known; it may be known only until the process is gone
    std::function<bool(int pid)> lives;            // false: it has exited, or exits
  };
  // true: it reports a new fault. A further victim of the last fault is added to that one.
  bool read(const LogLine& line, WallTime now, const Processes& processes);
  const std::deque<Fault>& last() const { return faults_; }                                      // oldest first
  std::uint64_t total(FaultKind kind) const { return totals_[static_cast<std::size_t>(kind)]; }  // since the start

 private:
  struct Dying {
    int server = 0;
    int pid = 0;
    std::string grant;
  };
  bool add(Fault fault);
  Dying dead_at(int server, const Processes& processes) const;
  std::deque<Fault> faults_;
  std::array<std::uint64_t, 3> totals_{};
  std::deque<Dying> dying_;
  std::deque<Dying> left_;  // until a process with the same pid connects
};

}  // namespace tranche::mps
