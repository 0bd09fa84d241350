#include "config/resolve.h"

#include <gmock/gmock.h>

#include <set>

#include "config/parse/parse_fixture.h"

namespace tranche::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Input {
  std::string file;
  GivenFlags flags;
  Environment environment;
  Program program = Program::kDevicePlugin;
};

Resolved resolved(const Input& input) {
  return resolve(parse(input.file, input.file.empty() ? "" : "c"), input.program, {input.flags, input.environment});
}
std::vector<std::string> said(const Input& input) {
  return fixture::texts_of(resolved(input).problems);
}
Explained explained(const Resolved& resolution, std::string_view path) {
  for (const Explained& row : resolution.explained)
    if (row.path == path) return row;
  ADD_FAILURE() << path << " is not explained";
  return {};
}
const std::string kMps = "sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}\n";

// Promise: config: Flag beats variable beats file beats default.
TEST(ResolveTest, FlagBeatsVariableBeatsFileBeatsDefault) {
  Input input;
  EXPECT_EQ(resolved(input).config.flags.mig_strategy, MigStrategy::kNone);
  EXPECT_EQ(explained(resolved(input), "flags.migStrategy"),
            (Explained{"flags.migStrategy", "none", Source::kDefault, "default"}));
  input.file = "flags: {migStrategy: mixed}";
  EXPECT_EQ(explained(resolved(input), "flags.migStrategy"),
            (Explained{"flags.migStrategy", "mixed", Source::kFile, "c:1:22"}));
  input.environment = {{"MIG_STRATEGY", "single"}};
  EXPECT_EQ(resolved(input).config.flags.mig_strategy, MigStrategy::kSingle);
  EXPECT_EQ(explained(resolved(input), "flags.migStrategy").where, "$MIG_STRATEGY");
  input.flags = {{"mig-strategy", {"mixed", "none"}}};
  EXPECT_EQ(resolved(input).config.flags.mig_strategy, MigStrategy::kNone) << "the last of repeated flags counts";
  EXPECT_EQ(explained(resolved(input), "flags.migStrategy").where, "--mig-strategy");
}

TEST(ResolveTest, TheFirstVariableThatExistsCountsEvenIfEmpty) {
  const Input input{.file = "", .flags = {}, .environment = {{"NVIDIA_CDI_HOOK_PATH", ""}, {"NVIDIA_CTK_PATH", "/x"}}};
  EXPECT_EQ(resolved(input).config.flags.plugin.nvidia_ctk_path, "");
  const Input second{.file = "", .flags = {}, .environment = {{"NVIDIA_CTK_PATH", "/x"}}};
  EXPECT_EQ(resolved(second).config.flags.plugin.nvidia_ctk_path, "/x");
}

// Promise: config: A variable that is present and empty follows NVIDIA's rules.
TEST(ResolveTest, PresentButEmptyFollowsNvidiasRules) {
  EXPECT_THAT(
      said({"flags: {migStrategy: mixed}", {}, {{"MIG_STRATEGY", ""}}}),
      ElementsAre(HasSubstr("$MIG_STRATEGY: error: flags.migStrategy: must be none, single or mixed, but is \"\"")));
  EXPECT_FALSE(
      resolved({"flags: {failOnInitError: true}", {}, {{"FAIL_ON_INIT_ERROR", ""}}}).config.flags.fail_on_init_error);
  EXPECT_TRUE(resolved({"imex: {channelIDs: [0]}", {}, {{"IMEX_CHANNEL_IDS", ""}}}).config.imex.channel);
  EXPECT_THAT(said({"", {}, {{"DEVICE_LIST_STRATEGY", ""}}}), ElementsAre(HasSubstr("but has \"\"")));
  const Input gfd{
      .file = "", .flags = {}, .environment = {{"GFD_SLEEP_INTERVAL", ""}}, .program = Program::kFeatureDiscovery};
  EXPECT_EQ(resolved(gfd).config.flags.gfd.sleep_interval, Duration(std::chrono::seconds(60)));
}

TEST(ResolveTest, SwitchesTakeGosWords) {
  for (const char* yes : {"1", "t", "T", "true", "True", "TRUE"})
    EXPECT_TRUE(resolved({"", {}, {{"PASS_DEVICE_SPECS", yes}}}).config.flags.plugin.pass_device_specs) << yes;
  for (const char* no : {"0", "f", "F", "false", "False", "FALSE"})
    EXPECT_FALSE(resolved({"flags: {plugin: {passDeviceSpecs: true}}", {{"pass-device-specs", {no}}}, {}})
                     .config.flags.plugin.pass_device_specs)
        << no;
  EXPECT_THAT(said({"", {}, {{"PASS_DEVICE_SPECS", "yes"}}}),
              ElementsAre(HasSubstr("must be true or false, but is \"yes\"")));
  EXPECT_THAT(said({"", {{"pass-device-specs", {""}}}, {}}), ElementsAre(HasSubstr("--pass-device-specs")));
}

TEST(ResolveTest, ListsAreSplitAtCommasAndTrimmed) {
  EXPECT_THAT(
      resolved({"", {}, {{"DEVICE_LIST_STRATEGY", "envvar, cdi-cri"}}}).config.flags.plugin.device_list_strategy,
      ElementsAre(ListStrategy::kEnvvar, ListStrategy::kCdiCri));
  EXPECT_THAT(
      resolved({"", {{"device-list-strategy", {"envvar", "volume-mounts,cdi-cri"}}}, {{"DEVICE_LIST_STRATEGY", "x"}}})
          .config.flags.plugin.device_list_strategy,
      ElementsAre(ListStrategy::kEnvvar, ListStrategy::kVolumeMounts, ListStrategy::kCdiCri));
  for (const char* zero : {"0", "0x0", "0b0", "00", " 0 "})
    EXPECT_TRUE(resolved({"", {}, {{"IMEX_CHANNEL_IDS", zero}}}).config.imex.channel) << zero;
  for (const char* bad : {"x", "0.0", "08", "0,", "0,0"})
    EXPECT_EQ(said({"", {}, {{"IMEX_CHANNEL_IDS", bad}}}).size(), 1u) << bad;
  EXPECT_THAT(said({"", {{"imex-channel-ids", {""}}}, {}}), ElementsAre(HasSubstr("must be whole numbers")))
      << "a flag that is given and empty is no variable";
  EXPECT_THAT(said({"", {}, {{"IMEX_CHANNEL_IDS", "1"}}}), ElementsAre(HasSubstr("the one channel 0")));
  EXPECT_THAT(resolved({"", {}, {{"CDI_DISABLE_HOOKS", "all,chmod"}}}).config.run.cdi_disable_hooks,
              ElementsAre("all", "chmod"));
}

TEST(ResolveTest, AnEmptyListOfCdiWordsIsNoWord) {
  const Input empty{.file = "", .flags = {}, .environment = {{"CDI_FEATURE_FLAGS", ""}, {"CDI_DISABLE_HOOKS", ""}}};
  EXPECT_THAT(said(empty), IsEmpty());
  EXPECT_THAT(resolved(empty).config.run.cdi_disable_hooks, IsEmpty());
  EXPECT_THAT(resolved(empty).config.run.cdi_feature_flags, IsEmpty());
}

TEST(ResolveTest, AWordThatIsOverriddenIsNoProblem) {
  const std::string file = "flags: {migStrategy: x, plugin: {deviceListStrategy: [z]}}";
  EXPECT_EQ(said({file, {}, {}}).size(), 2u);
  EXPECT_THAT(said({file, {{"mig-strategy", {"none"}}}, {{"DEVICE_LIST_STRATEGY", "envvar"}}}), IsEmpty());
  EXPECT_EQ(said({"flags: {migStrategy: 5}", {{"mig-strategy", {"none"}}}, {}}).size(), 1u) << "but a wrong type is";
  EXPECT_EQ(said({"flags: {plugin: {deviceListStrategy: [5, z]}}", {}, {{"DEVICE_LIST_STRATEGY", "envvar"}}}).size(),
            1u);
}

// Promise: config: Validation problems come in NVIDIA's order.
TEST(ResolveTest, ProblemsFollowNvidiasOrderOfValidation) {
  const Input input{
      .file = kMps,
      .flags = {{"imex-channel-ids", {"7"}}, {"mig-strategy", {"mixed"}}, {"shared-devices-allocation-policy", {"x"}}},
      .environment = {
          {"DEVICE_ID_STRATEGY", "x"}, {"DEVICE_LIST_STRATEGY", "x"}, {"DEVICE_DISCOVERY_STRATEGY", "vfio"}}};
  std::vector<std::string> paths;
  for (const Problem& problem : resolved(input).problems) paths.push_back(problem.path);
  EXPECT_THAT(paths, ElementsAre("flags.plugin.deviceListStrategy", "flags.plugin.deviceIDStrategy",
                                 "flags.plugin.sharedDevicesAllocationPolicy", "flags.migStrategy",
                                 "flags.deviceDiscoveryStrategy", "imex.channelIDs"));
}

TEST(ResolveTest, MpsDoesNotGoWithMixed) {
  EXPECT_THAT(said({"flags: {migStrategy: mixed}\n" + kMps, {}, {}}),
              ElementsAre(HasSubstr("c:1:22: error: flags.migStrategy: is mixed")));
  EXPECT_THAT(said({"flags: {migStrategy: mixed}\n" + kMps, {{"mig-strategy", {"none"}}}, {}}), IsEmpty());
}

TEST(ResolveTest, MpsGoesWithMixedWhereItServesMigDevices) {
  EXPECT_THAT(said({"{flags: {migStrategy: mixed}, sharing: {mps: {migDevices: true, resources: [{name: gpu, "
                    "replicas: 2}]}}}",
                    {},
                    {}}),
              IsEmpty());
}

TEST(ResolveTest, RootsHaveDefaults) {
  EXPECT_EQ(resolved({kMps, {}, {}}).config.flags.mps_root, kDefaultMpsRoot);
  EXPECT_EQ(explained(resolved({kMps, {}, {}}), "flags.mpsRoot").where, "default under MPS");
  EXPECT_EQ(resolved({"", {}, {}}).config.flags.mps_root, "");
  EXPECT_EQ(resolved({kMps, {}, {{"MPS_ROOT", "/x"}}}).config.flags.mps_root, "/x");
  EXPECT_EQ(resolved({"", {}, {{"NVIDIA_DRIVER_ROOT", "/drv"}}}).config.flags.nvidia_dev_root, "/drv");
  EXPECT_EQ(explained(resolved({"", {}, {{"NVIDIA_DRIVER_ROOT", "/drv"}}}), "flags.nvidiaDevRoot"),
            (Explained{"flags.nvidiaDevRoot", "/drv", Source::kDefault, "as flags.nvidiaDriverRoot"}));
  EXPECT_EQ(resolved({"flags: {nvidiaDevRoot: \"\", nvidiaDriverRoot: /r}", {}, {}}).config.flags.nvidia_dev_root,
            "/r");
  EXPECT_EQ(resolved({"", {{"nvidia-dev-root", {"/d"}}}, {}}).config.flags.nvidia_dev_root, "/d");
}

TEST(ResolveTest, EveryProgramHasItsOwnFlags) {
  EXPECT_EQ(resolved({"", {}, {{"KUBELET_SOCKET", ""}}}).config.run.kubelet_socket, "");
  const Input gfd{.file = "",
                  .flags = {{"o", {"/f"}}},
                  .environment = {{"GFD_MIG_STRATEGY", "single"}, {"MIG_STRATEGY", "mixed"}},
                  .program = Program::kFeatureDiscovery};
  EXPECT_EQ(resolved(gfd).config.flags.gfd.output_file, "/f");
  EXPECT_EQ(resolved(gfd).config.flags.mig_strategy, MigStrategy::kSingle);
  const Input mps{
      .file = "", .flags = {}, .environment = {{"PASS_DEVICE_SPECS", "true"}}, .program = Program::kMpsControlDaemon};
  EXPECT_FALSE(resolved(mps).config.flags.plugin.pass_device_specs);
}

TEST(ResolveTest, TheSharedNameIsExplained) {
  const Resolved resolution =
      resolved({.file = "sharing: {mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
                .flags = {},
                .environment = {}});
  EXPECT_EQ(explained(resolution, "sharing.mps.resources").value, "nvidia.com/gpu in 4, as nvidia.com/gpu.shared");
}

TEST(ResolveTest, FindsTheConfigFile) {
  EXPECT_EQ(config_file_of(Program::kDevicePlugin, {}), "");
  EXPECT_EQ(config_file_of(Program::kDevicePlugin, {{}, {{"CONFIG_FILE", "/a"}}}), "/a");
  EXPECT_EQ(config_file_of(Program::kFeatureDiscovery, {{{"config-file", {"/b"}}}, {{"GFD_CONFIG_FILE", "/a"}}}), "/b");
}

// Promise: command-line: No flag or variable is defined twice.
TEST(ResolveTest, NoFlagOrVariableIsNamedTwice) {
  for (const Program program : {Program::kDevicePlugin, Program::kFeatureDiscovery, Program::kMpsControlDaemon}) {
    std::set<std::string_view> seen;
    for (const Key& setting : settings_of(program)) {
      for (const auto flag : setting.flags) EXPECT_TRUE(seen.insert(flag).second) << flag;
      for (const auto variable : setting.variables) EXPECT_TRUE(seen.insert(variable).second) << variable;
      EXPECT_FALSE(help_of(setting).empty());
    }
  }
}

}  // namespace
}  // namespace tranche::config
