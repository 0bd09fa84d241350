#include "cdi/make_specs.h"

#include <gmock/gmock.h>

namespace tranche::cdi {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Problem> features(std::vector<std::string> words) {
  config::PluginRun run;
  run.cdi_feature_flags = std::move(words);
  return flag_problems(run);
}
std::vector<Problem> hooks(std::vector<std::string> words) {
  config::PluginRun run;
  run.cdi_disable_hooks = std::move(words);
  return flag_problems(run);
}

TEST(CdiFeatures, KnowsEveryFeatureFlagAndHookOfNvidias) {
  EXPECT_THAT(features({"enable-explicit-driver-libraries", "disable-nvsandboxutils", "disable-multiple-csv-devices",
                        "no-additional-gids-for-device-nodes", "disable-ipc-discoverer"}),
              IsEmpty());
  EXPECT_THAT(hooks({"all", "create-symlinks", "update-ldcache", "disable-device-node-modification",
                     "update-application-profile", "chmod", "enable-cuda-compat"}),
              IsEmpty());
}

TEST(CdiFeatures, SaysThatCoherentAnnotationsAreNotWritten) {
  const auto read = features({"enable-coherent-annotations"});
  ASSERT_THAT(read, SizeIs(1));
  EXPECT_EQ(to_string(read.front()),
            "--cdi-feature-flags: warning: enable-coherent-annotations has no effect: specs are written without "
            "annotations; leave it out");
}

TEST(CdiFeatures, AsksWhichWordWasMeant) {
  const auto feature = features({"disable-ipc-discover"});
  ASSERT_THAT(feature, SizeIs(1));
  EXPECT_EQ(to_string(feature.front()),
            "--cdi-feature-flags: warning: has the unknown word \"disable-ipc-discover\"; did you mean "
            "disable-ipc-discoverer?");
  const auto hook = hooks({"update-ldcach", "xyz"});
  ASSERT_THAT(hook, SizeIs(2));
  EXPECT_THAT(hook.front().remedy, HasSubstr("update-ldcache"));
  EXPECT_THAT(hook.back().remedy, HasSubstr("write one of all, create-symlinks"));
  EXPECT_FALSE(has_error(hook));
}

}  // namespace
}  // namespace tranche::cdi
