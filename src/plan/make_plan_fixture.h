#pragma once
// For tests: the plan that is made, or what is said about it.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace tranche::plan::fixture {

inline Plan plan_of(const config::Config& config, const gpu::Inventory& inventory) {
  auto plan = make_plan(config, inventory);
  if (!plan)
    for (const Problem& problem : plan.error()) ADD_FAILURE() << to_string(problem);
  return std::move(plan).value_or(Plan{});
}

inline std::vector<std::string> problems_of(const config::Config& config, const gpu::Inventory& inventory) {
  std::vector<std::string> out;
  if (const auto plan = make_plan(config, inventory); !plan)
    for (const Problem& problem : plan.error()) out.push_back(to_string(problem));
  return out;
}

}  // namespace tranche::plan::fixture
