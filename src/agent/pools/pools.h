#pragma once
// What `tranche mps` says about its pools (docs/paths.md, "mps.sock"): one line of JSON → a value, and that value +
// plan → the pools whose slots must not be handed out, each with its reason. Strict: a line that is not understood
// counts as no answer, never as health. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"

namespace tranche::agent {

struct PoolReport {
  std::string id;
  std::string state;   // by mps::to_string(State)
  std::string reason;  // why it is not serving; "" when it is
  std::int64_t daemon_pid = 0;
  std::vector<std::int64_t> clients;
  std::uint64_t restarts = 0;
  friend bool operator==(const PoolReport&, const PoolReport&) = default;
};

struct PoolReports {
  bool connected = false;  // false: nobody answers on the socket
  std::string problem;     // why not, or what was wrong with the last line
  std::map<std::string, PoolReport> pools;
  friend bool operator==(const PoolReports&, const PoolReports&) = default;
};

Result<std::map<std::string, PoolReport>> parse_pool_reports(std::string_view json_line);

// By pool id. A pool that `tranche mps` does not know (yet) is as faulty as one that is down.
std::map<std::string, std::string> pool_faults(const plan::Plan& plan, const PoolReports& reports);

}  // namespace tranche::agent
