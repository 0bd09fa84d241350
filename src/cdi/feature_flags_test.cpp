#include "cdi/feature_flags.h"

#include <gmock/gmock.h>

namespace tranche::cdi {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Features features(std::vector<std::string> words) {
  config::PluginRun run;
  run.cdi_feature_flags = std::move(words);
  return read_features(run);
}
Features hooks(std::vector<std::string> words) {
  config::PluginRun run;
  run.cdi_disable_hooks = std::move(words);
  return read_features(run);
}

TEST(CdiFeatures, KnowsEveryFeatureFlagOfNvidias) {
  const auto read =
      features({"enable-explicit-driver-libraries", "disable-nvsandboxutils", "disable-multiple-csv-devices",
                "no-additional-gids-for-device-nodes", "disable-ipc-discoverer"});
  EXPECT_THAT(read.problems, IsEmpty());
  EXPECT_TRUE(read.explicit_driver_libraries);
  EXPECT_TRUE(read.no_ipc_sockets);
  EXPECT_FALSE(features({}).explicit_driver_libraries);
  EXPECT_FALSE(features({}).no_ipc_sockets);
}

TEST(CdiFeatures, SaysThatCoherentAnnotationsAreNotWritten) {
  const auto read = features({"enable-coherent-annotations"});
  ASSERT_THAT(read.problems, SizeIs(1));
  EXPECT_EQ(to_string(read.problems.front()),
            "--cdi-feature-flags: warning: enable-coherent-annotations has no effect: specs are written without "
            "annotations; leave it out");
}

TEST(CdiFeatures, AsksWhichWordWasMeant) {
  const auto feature = features({"disable-ipc-discover"});
  ASSERT_THAT(feature.problems, SizeIs(1));
  EXPECT_EQ(to_string(feature.problems.front()),
            "--cdi-feature-flags: warning: has the unknown word \"disable-ipc-discover\"; did you mean "
            "disable-ipc-discoverer?");
  const auto hook = hooks({"update-ldcach", "xyz"});
  ASSERT_THAT(hook.problems, SizeIs(2));
  EXPECT_THAT(hook.problems.front().remedy, HasSubstr("update-ldcache"));
  EXPECT_THAT(hook.problems.back().remedy, HasSubstr("write one of all, create-symlinks"));
  EXPECT_FALSE(has_error(hook.problems));
}

TEST(CdiFeatures, TurnsHooksOffOneByOneOrAll) {
  EXPECT_THAT(hooks({"chmod", "enable-cuda-compat"}).disabled_hooks,
              testing::UnorderedElementsAre(HookName::kChmod, HookName::kEnableCudaCompat));
  EXPECT_THAT(hooks({"all"}).disabled_hooks, SizeIs(6));
  EXPECT_THAT(hooks({}).disabled_hooks, IsEmpty());
  EXPECT_THAT(
      hooks({"create-symlinks", "update-ldcache", "disable-device-node-modification", "update-application-profile"})
          .problems,
      IsEmpty());
}

}  // namespace
}  // namespace tranche::cdi
