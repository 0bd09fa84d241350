#pragma once
// Config + Inventory → Plan. Fails only where NVIDIA's plugin exits because a configuration is impossible on this
// hardware (MPS on MIG devices, MIG single with unlike devices …); the Problems then contain the remedy.
#include <expected>
#include <vector>

#include "base/problem.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::plan {

std::expected<Plan, std::vector<Problem>> make_plan(const config::Config& config, const gpu::Inventory& inventory);

}  // namespace tranche::plan
