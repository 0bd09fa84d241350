#pragma once
// Finds which client broke a pool, and which clients it affected, from the log of the pool's servers. A fatal GPU error
// names its culprit, with one measured exception: after a client died with work in flight, MPS blames a peer that did
// nothing, and only the line before ("assuming client … exit") names the client that died. MPS writes that line at
// every death, also at harmless ones, so a client counts as the culprit only while the server still handles its death.
// Pure; fuzzed.
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "mps/control/log_lines.h"

namespace tranche::mps {

enum class FaultKind { kFatal, kException, kUncleanExit };
std::string_view to_string(FaultKind kind);  // "fatal", "exception", "unclean-exit"

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

class FaultHistory {
 public:
  // Effect of a log line: none, a new fault, or another victim of the last fault.
  enum class Effect { kNothing, kFault, kVictim };
  using GrantOf =
      std::function<std::string(int pid)>;  // "" = not known; it may be known only until the process is gone
  Effect read(const LogLine& line, WallTime now, const GrantOf& grant_of = {});
  const std::deque<Fault>& faults() const { return faults_; }  // oldest first

 private:
  struct Dying {
    int server = 0;
    int pid = 0;
    std::string grant;
  };
  Effect add(Fault fault);
  Dying dying_at(int server) const;
  std::deque<Fault> faults_;
  std::deque<Dying> dying_;
};

}  // namespace tranche::mps
