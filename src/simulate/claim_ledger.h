#pragma once
// Private to src/simulate: claims of pods on one planned node: what the scheduler grants (allocator.h), and what the
// node then makes of it (dra/prepare.h). A claim that several pods name is allocated once.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/model.h"
#include "dra/prepare.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"
#include "simulate/allocator.h"
#include "simulate/land.h"

namespace tranche::simulate {

class ClaimLedger {
 public:
  ClaimLedger(const plan::Plan& plan, const inventory::Inventory& inventory, const config::Config& config,
              const ClaimObjects& objects, std::string node_name);
  ClaimLedger(const ClaimLedger&) = delete;
  ClaimLedger& operator=(const ClaimLedger&) = delete;

  // A class by which the scheduler makes a claim for a pod that asks for this extended resource.
  bool maps(const std::string& resource) const { return class_of(resource) != nullptr; }

  // A pod's claims, from the scheduler's grant to the node's answer.
  struct Needed {
    std::string pod_claim;
    std::string object;  // "namespace/name" of a ResourceClaim; "": made for the pod
    dra::ClaimName name;
    std::shared_ptr<const ClaimSpec> spec;
    bool allocated = false;  // by an earlier pod
    std::vector<Pick> picks;
  };
  // `mapped`: extended resources of containers that become claims. Sets fate, why and lacks where it is not granted;
  // else everything is taken.
  std::vector<Needed> schedule(const PodAsk& pod, const std::vector<std::string>& mapped, PodOutcome& outcome);
  void release(const std::vector<Needed>& claims);
  // Sets the outcome's claims; or its fate and why, where the node refuses what the scheduler has granted.
  void prepare(const PodAsk& pod, const std::vector<Needed>& claims, PodOutcome& outcome);

  std::vector<ClaimsLeft> left() const;

 private:
  const std::string* class_of(const std::string& resource) const;
  std::vector<Needed> needed_by(const PodAsk& pod, const std::vector<std::string>& mapped, PodOutcome& outcome) const;
  bool is_foreign(const DeviceAsk& ask) const;
  void look_at(const PodAsk& pod, const Needed& claim, PodOutcome& outcome) const;
  void explain(const std::vector<NeededClaim>& claims, PodOutcome& outcome);
  dra::Claim as_allocated(const PodAsk& pod, const Needed& claim) const;
  std::vector<ClaimGrant> grants_of(const PodAsk& pod, const Needed& claim, const dra::PreparedClaim& prepared) const;

  const ClaimObjects& objects_;
  std::map<std::string, ClassSpec> classes_;
  dra::Offered offered_;
  Published published_;
  Allocator allocator_;
  Allocator empty_;                                // what an empty node could grant
  std::map<std::string, std::vector<Pick>> held_;  // of ResourceClaims, by "namespace/name"
  dra::PreparedClaims prepared_;
};

}  // namespace tranche::simulate
