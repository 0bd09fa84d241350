#pragma once
// What each grant is worth on each device, as it was when it was given: kept in a file of the run directory, so that
// neither another configuration nor a restart of ours changes it for a pod that runs. Loop thread only.
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "grants/allocate/grant.h"
#include "guard/tenants.h"
#include "guard/worth_journal.h"
#include "mps/protocol/pools.h"
#include "programs/node/reports.h"

namespace tranche::agent {

class WorthBook {
 public:
  explicit WorthBook(const std::string& run_dir);

  // One that kubelet hands out anew is nobody's until kubelet tells whose.
  void given(const std::vector<allocate::Grant>& grants, MonoTime now);
  // What kubelet says is held, and which grants are of one container. One that we do not know is worth what `tranche
  // mps` was told for its endpoint, and else what the plan says; one that kubelet has not named for a while is
  // forgotten. complete: kubelet has answered. What a claim was worth is forgotten once nothing is held by it and its
  // endpoint is closed, whether kubelet answers or not.
  void held(const std::vector<Holder>& holders, const plan::Plan& plan, const PoolReports& pools, bool complete,
            MonoTime now);
  const guard::Worths& worths() const { return worths_; }
  // A grant was given a moment ago, and kubelet has not told whose it is.
  bool awaits_kubelet(MonoTime now) const;

 private:
  void learn(const Holder& holder, const plan::Plan& plan, const PoolReports& pools);
  void forget_claims(const std::vector<guard::HeldGrant>& held, const PoolReports& pools);
  void write();

  std::string run_dir_;
  guard::Worths worths_;
  std::map<std::string, MonoTime> named_;  // by grant, when it was last given or held
};

}  // namespace tranche::agent
