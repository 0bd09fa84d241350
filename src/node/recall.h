#pragma once
// What the node agent writes down: state for its next start (docs/reference/paths.md, "State across restarts"), and the
// holders of devices for `tranche mps`. Loop thread only.
#include <optional>
#include <set>
#include <string>

#include "grants/grant_shares.h"

namespace tranche::node {

// `<run-dir>/grants.txt`: what the ledger of grants (grants/ledger.h) keeps for the next start of the agent.
class GrantsFile {
 public:
  explicit GrantsFile(std::string run_dir) : run_dir_(std::move(run_dir)) {}

  grants::Shares read();
  // After every change of the ledger: cheap when nothing of it changed.
  void keep(const grants::Shares& kept);

 private:
  std::string run_dir_;
  grants::Shares kept_;  // as it was written last, or could not be
};

// The file in which `tranche mps` reads the devices that are held without it (mps/protocol/requests.h).
struct HeldWithoutMps {
  std::set<std::string> devices;  // held without MPS, or of no container and to be removed by the MIG manager
  bool known = false;             // that these are all
};

class OtherHoldersFile {
 public:
  // `mps_root` is where the MPS directory is for this process.
  explicit OtherHoldersFile(std::string mps_root) : mps_root_(std::move(mps_root)) {}

  void keep(const HeldWithoutMps& holders);

 private:
  std::string mps_root_;
  std::optional<std::set<std::string>> written_;
  std::string problem_;  // as it was logged
};

// The text of `<run_dir>/<name>`; "" if there is none. An unusable file is renamed and logged, together with the effect
// of the loss.
std::string recall(const std::string& run_dir, const std::string& name, const std::string& effect);
// Logs that some lines of it could not be parsed, unless all could.
void log_if_partial(const std::string& run_dir, const std::string& name, bool all);

}  // namespace tranche::node
