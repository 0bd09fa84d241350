#pragma once
// `<run-dir>/grants.txt`: what the ledger of grants (grants/ledger.h) keeps for the next start of the agent. Loop
// thread only.
#include <string>

#include "grants/grant_shares.h"

namespace tranche::agent {

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

}  // namespace tranche::agent
