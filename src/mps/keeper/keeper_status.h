#pragma once
// What the keeper and `tranche mps` say to each other on <mps-root>/keeper.sock: JSON, one line each. Pure; fuzzed.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "base/enum_names.h"
#include "base/result.h"
#include "os/process/process.h"

namespace tranche::mps {

// kStarting: it may open more descriptors soon. kDead: it has exited, and its work may still run on the GPU. kReleased:
// the keeper has closed its descriptors; only in KeeperStatus::changes.
enum class HeldState { kStarting, kHeld, kDead, kReleased };
ENUM_NAMES(HeldState::kReleased, "starting", "held", "dead", "released")

struct HeldClient {
  HeldState state = HeldState::kStarting;
  std::size_t files = 0;
  std::string problem = {};  // why not all of its descriptors are held
  friend bool operator==(const HeldClient&, const HeldClient&) = default;
};

struct KeeperStatus {
  std::string version;
  bool changes = false;  // it has the clients whose state or problem has changed since the last status; else all
  std::map<os::ProcessRef, HeldClient> clients = {};
  std::uint64_t most_files = 0;  // descriptors that it may have open
  friend bool operator==(const KeeperStatus&, const KeeperStatus&) = default;
};
std::string to_json(const KeeperStatus& status);
Result<KeeperStatus> read_keeper_status(std::string_view line);  // kInvalid

// Hold: holds the process, or looks at its descriptors again. End: the keeper ends once it has released the clients
// that have exited.
struct HoldRequest {
  os::ProcessRef process;
  std::string share = {};  // whose client it is: for a bound on its descriptors
};
struct EndRequest {};
using KeeperRequest = std::variant<HoldRequest, EndRequest>;
std::string to_json(const KeeperRequest& request);
Result<KeeperRequest> read_keeper_request(std::string_view line);  // kInvalid

}  // namespace tranche::mps
