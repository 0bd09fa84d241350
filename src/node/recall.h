#pragma once
// State that the node agent stored for its next start (docs/reference/paths.md, "State across restarts"). Loop thread.
#include <string>

#include "grants/grant_shares.h"

namespace tranche::node {

// `<run-dir>/grants.txt`: what the ledger of grants (grants/ledger.h) keeps for the next start of the agent. Loop
// thread only.
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

// The text of `<run_dir>/<name>`; "" if there is none. An unusable file is renamed and logged, together with the effect
// of the loss.
std::string recall(const std::string& run_dir, const std::string& name, const std::string& effect);
// Logs that some lines of it could not be parsed, unless all could.
void log_if_partial(const std::string& run_dir, const std::string& name, bool all);

}  // namespace tranche::node
