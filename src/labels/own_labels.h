#pragma once
// Inside label/: what GPU feature discovery does not say and pods may want to select nodes by, under tranche.io/.
#include "labels/resource_labels.h"

namespace tranche::label {

// model.<model>.count and .memory: every model of the node, whatever MIG and sharing make of it.
void add_model_labels(const Gpus& gpus, Labels& labels);

// <resource>.slot.…: what one slot is worth where MPS shares; of several kinds of device, the least.
void add_slot_labels(const plan::Plan& plan, Labels& labels);

// hazard.sm-counts: "exposed" where a slot is cut to a count of SMs at which this GPU is known to compute wrong,
// "avoided" where there are such counts and no slot has one, "unmeasured" where such are to be expected.
void add_hazard_labels(const Gpus& gpus, const plan::Plan& plan, const std::string& driver, Labels& labels);

// mps.tier: by what means shares are enforced; of several pools the weakest. Absent until all are known.
void add_tier_label(const plan::Plan& plan, const std::map<std::string, std::string>& tiers, Labels& labels);

}  // namespace tranche::label
