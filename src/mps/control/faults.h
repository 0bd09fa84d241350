#pragma once
// Who broke a pool, and whom it hit, from what its servers log. A fatal GPU error names its culprit, with one
// exception that was measured: after a client died with work in flight the error is put on a peer that did nothing,
// and the one that died is told by the line before, "assuming client … exit". That line comes at every death, also the
// harmless; a client counts as the culprit only while the server is still busy with its death.
// Pure; fuzzed.
#include <deque>
#include <optional>
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
  int culprit = 0;           // host process id; 0 = nobody is named
  std::vector<int> victims;  // without the culprit
  int server = 0;
  friend bool operator==(const Fault&, const Fault&) = default;
};

inline constexpr std::size_t kMostFaults = 32;  // kept for each pool

class FaultBook {
 public:
  // What the line says of faults: a new one, another victim of the last, or nothing.
  enum class News { kNothing, kFault, kVictim };
  News read(const LogLine& line, WallTime now);
  const std::deque<Fault>& faults() const { return faults_; }  // oldest first

 private:
  struct Dying {
    int server = 0;
    int pid = 0;
  };
  News add(Fault fault);
  int dying_at(int server) const;
  std::deque<Fault> faults_;
  std::deque<Dying> dying_;
};

}  // namespace tranche::mps
