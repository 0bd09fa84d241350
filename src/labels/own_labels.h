#pragma once
// Inside label/: labels under tranche.io/ that GPU feature discovery does not set and pods may want to select nodes by.
#include "labels/resource_labels.h"

namespace tranche::label {

// model.<model>.count and .memory: every model of the node, regardless of MIG and sharing.
void add_model_labels(const Gpus& gpus, Labels& labels);

// <resource>.slot.…: the limits of one slot under MPS; of several kinds of device, the smallest.
void add_slot_labels(const plan::Plan& plan, Labels& labels);

// hazard.sm-counts: "exposed" if a slot has an SM count with which this GPU is known to compute wrong results,
// "avoided" if there are such counts and no slot has one, "unmeasured" if such counts are likely.
void add_hazard_labels(const Gpus& gpus, const plan::Plan& plan, const std::string& driver, Labels& labels);

}  // namespace tranche::label
