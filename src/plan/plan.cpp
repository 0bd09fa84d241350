#include "plan/plan.h"

#include <algorithm>

namespace tranche::plan {

const PlannedResource* find_resource(const Plan& plan, std::string_view name) {
  const auto found = std::ranges::lower_bound(plan.resources, name, {}, &PlannedResource::name);
  return found != plan.resources.end() && found->name == name ? &*found : nullptr;
}

const PlannedPool* find_pool(const Plan& plan, std::string_view id) {
  const auto found = std::ranges::lower_bound(plan.pools, id, {}, &PlannedPool::id);
  return found != plan.pools.end() && found->id == id ? &*found : nullptr;
}

}  // namespace tranche::plan
