#include "plan/plan.h"

#include <gmock/gmock.h>

namespace tranche::plan {
namespace stale_test {

using config::MigStrategy;
using gpu::Platform;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Stale : ::testing::Test {
  Stale() {
    inventory.gpus.resize(2);
    for (std::uint32_t i = 0; i < 2; ++i) {
      inventory.gpus[i].uuid = "GPU-" + std::to_string(i);
      inventory.gpus[i].index = i;
    }
    gpu::MigDevice mig;
    mig.uuid = "MIG-0";
    mig.profile = "1g.18gb";
    inventory.gpus[0].mig_enabled = true;
    inventory.gpus[0].mig_devices = {mig};
    config.flags.mig_strategy = MigStrategy::kMixed;
    plan = make_plan(config, inventory).value_or(Plan{});
  }
  std::map<std::string, std::string> stale() const { return stale_devices(plan, inventory, config.flags.mig_strategy); }

  config::Config config;
  gpu::Inventory inventory;
  Plan plan;
};

using StaleDevices = Stale;

TEST_F(StaleDevices, AreNoneOfAPlanThatFitsTheNode) {
  ASSERT_EQ(plan.resources.size(), 2u);
  EXPECT_THAT(stale(), IsEmpty());
  for (const Platform platform : {Platform::kWsl, Platform::kTegra}) {
    inventory.platform = platform;
    inventory.gpus[0].mig_devices.clear();
    plan = make_plan(config, inventory).value_or(Plan{});
    ASSERT_EQ(plan.resources.size(), 1u);
    EXPECT_THAT(stale(), IsEmpty());
  }
}

TEST_F(StaleDevices, AreMigDevicesThatAreGoneAndGpusThatWereCut) {
  inventory.gpus[0].mig_devices[0].uuid = "MIG-other";
  EXPECT_THAT(stale(), ElementsAre(Pair("MIG-0", HasSubstr("does not exist any more"))));
  inventory.gpus[1].mig_enabled = true;
  EXPECT_THAT(stale(), ElementsAre(Pair("GPU-1", HasSubstr("MIG was turned on")), Pair("MIG-0", testing::_)));
  config.flags.mig_strategy = MigStrategy::kNone;
  EXPECT_THAT(stale(), ElementsAre(Pair("MIG-0", testing::_))) << "with none, MIG changes nothing for a whole GPU";
}

TEST_F(StaleDevices, AreThoseOfAGpuOrAPlatformThatIsGone) {
  inventory.gpus.erase(inventory.gpus.begin());
  EXPECT_THAT(stale(), ElementsAre(Pair("MIG-0", HasSubstr("its GPU is not on this node"))));
  inventory.platform = Platform::kTegra;
  EXPECT_THAT(stale(), ElementsAre(Pair("GPU-1", HasSubstr("platform is tegra now")), Pair("MIG-0", testing::_)));
}

}  // namespace stale_test
}  // namespace tranche::plan
