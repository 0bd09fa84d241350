#include "gpu/inventory/inventory.h"

#include <gtest/gtest.h>

#include <vector>

namespace tranche::inventory {
namespace {

constexpr const char* kGpu = "GPU-0a1b2c3d-0000-4000-8000-00000000000a";
const std::string kLegacy = std::string("MIG-") + kGpu + "/3/1";

// Promise: driver/mig: The old name of a MIG device gives its GPU and both instances.
TEST(MigUuid, TheOldNameReportsTheGpuAndBothInstances) {
  EXPECT_EQ(parse_legacy_mig_uuid(kLegacy), (LegacyMigUuid{kGpu, 3, 1}));
}

TEST(MigUuid, AnythingElseSaysNothing) {
  const std::string gpu = kGpu;
  const std::vector<std::string> texts{"",
                                       "MIG-0a1b2c3d-0000-4000-8000-00000000000a",
                                       gpu + "/3/1",
                                       "MIG-" + gpu,
                                       "MIG-" + gpu + "/3",
                                       "MIG-" + gpu + "/3/1/0",
                                       "MIG-" + gpu + "/g/1",
                                       "MIG-" + gpu + "/3/c",
                                       "MIG-" + gpu + "//1",
                                       "MIG-" + gpu + "/3/-1",
                                       "MIG-" + gpu + "/4294967295/0",
                                       "MIG-0a1b/3/1",
                                       "MIG-GPU-/3/1",
                                       "mig-" + gpu + "/3/1"};
  for (const std::string& text : texts) {
    EXPECT_FALSE(parse_legacy_mig_uuid(text)) << text;
  }
}

TEST(MigUuid, PlacementIsTheDriversWordElseTheOldNamesElseUnknown) {
  const struct {
    std::string mig;
    std::optional<std::uint32_t> gi, ci;
    MigPlacement expected;
  } cases[] = {
      {"MIG-1", 5, 0, {5, 0}},
      {kLegacy, 5, 0, {5, 0}},
      {kLegacy, std::nullopt, std::nullopt, {3, 1}},
      {kLegacy, 5, std::nullopt, {3, 1}},
      {"MIG-1", std::nullopt, std::nullopt, {}},
      {"MIG-1", 5, std::nullopt, {}},
      {"MIG-GPU-another/3/1", std::nullopt, std::nullopt, {}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(place_mig(c.mig, kGpu, c.gi, c.ci), c.expected) << c.mig;
  }
}

}  // namespace
}  // namespace tranche::inventory
