#include "plan/advertise/withheld.h"

#include <algorithm>

namespace tranche::advertise {

std::vector<Advertised> advertise(const plan::Plan& plan, const Faults& faults, const Withheld& withheld) {
  auto lists = advertise(plan, faults);
  for (const auto& [resource, slots] : withheld) {
    auto list = std::ranges::lower_bound(lists, resource, {}, &Advertised::resource);
    if (list == lists.end() || list->resource != resource) list = lists.insert(list, Advertised{resource, {}});
    auto left = slots;
    std::vector<AdvertisedSlot> all = list->slots;
    for (auto& slot : all) slot.healthy = left.erase(slot.id) == 0 && slot.healthy;
    for (const auto& [id, why] : left) all.push_back({id, false, std::nullopt});
    list->slots = std::move(all);
  }
  return lists;
}

const std::string* reason_withheld(const Withheld& withheld, const std::string& resource, const std::string& slot) {
  const auto slots = withheld.find(resource);
  if (slots == withheld.end()) return nullptr;
  const auto found = slots->second.find(slot);
  return found == slots->second.end() ? nullptr : &found->second;
}

}  // namespace tranche::advertise
