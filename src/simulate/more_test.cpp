#include "simulate/land.h"

#include <gmock/gmock.h>

namespace tranche::simulate {
namespace more_test {

Offer shared(std::uint32_t gpus, std::uint32_t slots) {
  Offer offer;
  offer.resource.name = "nvidia.com/gpu";
  offer.resource.sharing = config::SharingStrategy::kMps;
  for (std::uint32_t i = 0; i < gpus; ++i) {
    plan::PlannedDevice device;
    device.index = std::to_string(i);
    device.uuid = device.gpu_uuid = "GPU-" + device.index;
    device.slots = slots;
    device.replicated = true;
    device.memory = gib(80);
    device.sm_count = 132;
    device.pool = "gpu-" + device.index;
    offer.resource.devices.push_back(device);
  }
  return offer;
}

TEST(MoreThatFit, LiesOnOneGpuUnderMps) {
  auto offer = shared(2, 10);
  offer.taken = {"GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3", "GPU-1::9", "GPU-9::0"};
  EXPECT_EQ(more_that_fit(offer, 1), (More{15, true}));
  EXPECT_EQ(more_that_fit(offer, 2), (More{7, true}));
  EXPECT_EQ(more_that_fit(offer, 4), (More{3, true}));
  EXPECT_EQ(more_that_fit(offer, 9), (More{1, true}));
  EXPECT_EQ(more_that_fit(offer, 10), (More{0, true})) << "an empty GPU would do";
  EXPECT_EQ(more_that_fit(offer, 11), (More{0, false})) << "no GPU has so many";
  EXPECT_EQ(more_that_fit(offer, 0), (More{0, false}));
  EXPECT_EQ(largest_that_fits(offer), 9u);
}

TEST(MoreThatFit, IsNothingWhereAllocateRefuses) {
  auto offer = shared(1, 10);
  offer.resource.one_slot_per_request = true;
  EXPECT_EQ(more_that_fit(offer, 1), (More{10, true}));
  EXPECT_EQ(more_that_fit(offer, 2), (More{0, false}));
  EXPECT_EQ(largest_that_fits(offer), 1u);
}

TEST(MoreThatFit, WholeGpusAreGivenTogether) {
  auto offer = shared(8, 1);
  offer.resource.sharing = config::SharingStrategy::kNone;
  for (auto& device : offer.resource.devices) {
    device.replicated = false;
    device.pool.clear();
  }
  offer.taken = {"GPU-3"};
  EXPECT_EQ(more_that_fit(offer, 1), (More{7, true}));
  EXPECT_EQ(more_that_fit(offer, 2), (More{3, true}));
  EXPECT_EQ(more_that_fit(offer, 8), (More{0, true}));
  EXPECT_EQ(largest_that_fits(offer), 7u);
}

}  // namespace more_test
}  // namespace tranche::simulate
