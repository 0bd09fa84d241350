#include <gmock/gmock.h>

#include "plan/plan.h"

namespace tranche::plan {
namespace {

plan::Plan a_gpu_in_two_slots() {
  plan::PlannedDevice device;
  device.uuid = device.gpu_uuid = "GPU-a";
  device.replicated = true;
  device.slots = 2;
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.devices.push_back(device);
  plan::Plan plan;
  plan.resources.push_back(resource);
  return plan;
}

std::vector<std::string> described(const std::vector<Advertised>& lists) {
  std::vector<std::string> all;
  for (const auto& list : lists)
    for (const auto& slot : list.slots) all.push_back(list.resource + " " + slot.id + (slot.healthy ? "" : " no"));
  return all;
}

TEST(Withheld, NothingChangesNothing) {
  const auto plan = a_gpu_in_two_slots();
  EXPECT_EQ(advertise(plan, {}, Withheld{}), advertise(plan, {}));
}

TEST(Withheld, SlotsOfThePlanAreShownUnhealthyAndOthersBehindThem) {
  const Withheld withheld{{"nvidia.com/gpu", {{"GPU-a::1", "its memory is held"}, {"GPU-a::7", "held"}}}};
  EXPECT_THAT(
      described(advertise(a_gpu_in_two_slots(), {}, withheld)),
      testing::ElementsAre("nvidia.com/gpu GPU-a::0", "nvidia.com/gpu GPU-a::1 no", "nvidia.com/gpu GPU-a::7 no"));
  EXPECT_EQ(*reason_withheld(withheld, "nvidia.com/gpu", "GPU-a::7"), "held");
  EXPECT_EQ(reason_withheld(withheld, "nvidia.com/gpu", "GPU-a::0"), nullptr);
  EXPECT_EQ(reason_withheld(withheld, "nvidia.com/else", "GPU-a::7"), nullptr);
}

TEST(Withheld, AResourceThatThePlanDoesNotHaveIsShownInItsPlace) {
  const Withheld withheld{{"nvidia.com/a", {{"GPU-a", "held"}}}, {"nvidia.com/z", {{"GPU-a::0", "held"}}}};
  EXPECT_THAT(described(advertise(a_gpu_in_two_slots(), {}, withheld)),
              testing::ElementsAre("nvidia.com/a GPU-a no", "nvidia.com/gpu GPU-a::0", "nvidia.com/gpu GPU-a::1",
                                   "nvidia.com/z GPU-a::0 no"));
}

}  // namespace
}  // namespace tranche::plan
