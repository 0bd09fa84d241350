#include "config/parse/parse_fixture.h"

#include <gmock/gmock.h>

#include "config/document/amounts.h"

// The rows of NVIDIA's behaviour that docs/guide/configure.md promises to keep; tests/malformed has the mistakes.
namespace tranche::config {
namespace parse_test {

using namespace fixture;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ParseTest, WholeGpusAreWrittenOnPurpose) {
  for (const char* text : {"version: v1\n", "version: \"\"\n", "{}", "version: v1\nflags:\nresources:\nimex:\n",
                           "version: v1\nsharing: {}\n"})
    EXPECT_EQ(accepted(text), Config{}) << text;
  EXPECT_EQ(parse("", "").config, Config{}) << "no file";
  EXPECT_THAT(parse("", "").problems, IsEmpty());
}

// Promise: config: A file that shares nothing although it names `sharing`, and an emptied one, are errors.
TEST(ParseTest, AFileThatMakesEveryGpuWholeByMistakeIsAnError) {
  const std::string share = "{resources: [{name: gpu, replicas: 4}]}";
  for (const auto& [text, expected] : {
           std::pair{std::string(), "c:1:1: error: is empty; write version: v1 if whole GPUs are meant"},
           {"# all lines are comments\n", "is empty"},
           {"null", "is empty"},
           {"---\n# settings\n---\nversion: v1\n",
            "has an empty first document, and only the first one is read; remove the line ---"},
           {"version: v1\nsharing:\n", "c:2:1: error: sharing: has nothing below it, so that every GPU stays whole"},
           {"sharing: {mps: }", "c:1:10: error: sharing: has neither timeSlicing nor mps with a value"},
           {"sharing: {perDevice: true}", "has neither timeSlicing nor mps with a value"},
           {"sharing: {mig: " + share + "}", "has neither timeSlicing nor mps with a value"},
           {"flags:\nmigStrategy: mixed\nsharing:\ntimeSlicing: " + share,
            "c:3:1: error: sharing: has nothing below it"},
           {"flags:\nmigStrategy: mixed\n", "c:2:1: error: migStrategy: is not a known key here, and nothing else"},
           {"imex: {}\ntimeSlicing: " + share,
            "c:2:1: error: timeSlicing: is not a known key here, and without it this "
            "file shares no GPU; it belongs to another section: write it as "
            "sharing.timeSlicing"},
           {"flags: {mps: " + share + "}", "c:1:9: error: flags.mps: is not a known key here, and without it"},
           {"resources: [{name: gpu, replicas: 4}]", "indent the list of shared resources below sharing.timeSlicing"},
           {"version: v1\n---\nsharing: {mps: " + share + "}", "c:3:1: error: begins a second document of the file"},
           {"sharing: {}\nindividualGPU: {enabled: true}", "has no effect without sharing.mps, so that every GPU"},
           {"image: {repository: x}\nconfig: {map: {}}",
            "c:1:1: error: is the values file of a Helm chart (it has "
            "\"image\")"},
       })
    EXPECT_THAT(said(text), Contains(AllOf(HasSubstr("error"), HasSubstr(expected)))) << text;
  EXPECT_THAT(said("sharing: {mps: " + share + "}\n---\na: 1"),
              ElementsAre(HasSubstr("c:3:1: warning: begins a second document of the file, and only the first one")));
}

// Promise: config: Defaults are NVIDIA's.
TEST(ParseTest, DefaultsAreNvidias) {
  const Config config = accepted("{}");
  const Flags& flags = config.flags;
  EXPECT_EQ(flags.mig_strategy, MigStrategy::kNone);
  EXPECT_TRUE(flags.fail_on_init_error && flags.use_node_feature_api);
  EXPECT_FALSE(flags.gdrcopy_enabled || flags.gds_enabled || flags.mofed_enabled || config.imex.required ||
               flags.plugin.pass_device_specs || flags.gfd.oneshot || flags.gfd.no_timestamp);
  EXPECT_EQ(flags.mps_root + "," + flags.nvidia_driver_root + "," + flags.nvidia_dev_root, ",/,");
  EXPECT_EQ(flags.device_discovery_strategy, DiscoveryStrategy::kAuto);
  EXPECT_THAT(flags.plugin.device_list_strategy, ElementsAre(ListStrategy::kEnvvar));
  EXPECT_EQ(flags.plugin.device_id_strategy, IdStrategy::kUuid);
  EXPECT_EQ(flags.plugin.cdi_annotation_prefix, "cdi.k8s.io/");
  EXPECT_EQ(flags.plugin.nvidia_ctk_path, "/usr/bin/nvidia-ctk");
  EXPECT_EQ(flags.plugin.container_driver_root, "/driver-root");
  EXPECT_EQ(flags.plugin.shared_devices_allocation_policy, AllocationPolicy::kDistributed);
  EXPECT_EQ(flags.gfd.sleep_interval, Duration(60s));
  EXPECT_EQ(flags.gfd.output_file, "/etc/kubernetes/node-feature-discovery/features.d/gfd");
  EXPECT_EQ(flags.gfd.machine_type_file, "/sys/class/dmi/id/product_name");
  EXPECT_FALSE(config.imex.channel);
  EXPECT_EQ(config.sharing, Sharing{});
}

// Promise: config: Every field has its place in the model.
TEST(ParseTest, EveryFieldHasItsPlaceInTheModel) {
  const Config config = accepted(R"(
version: v1
flags:
  migStrategy: mixed
  failOnInitError: no
  mpsRoot: /mps
  nvidiaDriverRoot: /drv
  nvidiaDevRoot: /dev-root
  gdrcopyEnabled: true
  gdsEnabled: on
  mofedEnabled: yes
  useNodeFeatureAPI: false
  deviceDiscoveryStrategy: nvml
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [cdi-cri, volume-mounts]
    deviceIDStrategy: index
    cdiAnnotationPrefix: x/
    nvidiaCTKPath: /ctk
    containerDriverRoot: /ctr
    sharedDevicesAllocationPolicy: packed
  gfd:
    oneshot: true
    noTimestamp: true
    sleepInterval: 1m30s
    outputFile: ""
    machineTypeFile: /mt
imex: {channelIDs: [0], required: true}
)");
  const Flags& flags = config.flags;
  EXPECT_EQ(flags.mig_strategy, MigStrategy::kMixed);
  EXPECT_FALSE(flags.fail_on_init_error);
  EXPECT_EQ(flags.mps_root + flags.nvidia_driver_root + flags.nvidia_dev_root, "/mps/drv/dev-root");
  EXPECT_TRUE(flags.gdrcopy_enabled && flags.gds_enabled && flags.mofed_enabled && !flags.use_node_feature_api);
  EXPECT_EQ(flags.device_discovery_strategy, DiscoveryStrategy::kNvml);
  EXPECT_TRUE(flags.plugin.pass_device_specs);
  EXPECT_THAT(flags.plugin.device_list_strategy, ElementsAre(ListStrategy::kCdiCri, ListStrategy::kVolumeMounts));
  EXPECT_EQ(flags.plugin.device_id_strategy, IdStrategy::kIndex);
  EXPECT_EQ(flags.plugin.cdi_annotation_prefix + flags.plugin.nvidia_ctk_path + flags.plugin.container_driver_root,
            "x//ctk/ctr");
  EXPECT_EQ(flags.plugin.shared_devices_allocation_policy, AllocationPolicy::kPacked);
  EXPECT_TRUE(flags.gfd.oneshot && flags.gfd.no_timestamp);
  EXPECT_EQ(flags.gfd.sleep_interval, Duration(90s));
  EXPECT_EQ(flags.gfd.output_file + flags.gfd.machine_type_file, "/mt");
  EXPECT_TRUE(config.imex.channel);
  EXPECT_TRUE(config.imex.required);
}

TEST(ParseTest, KeysOfPlainStructuresAreReadInAnyCase) {
  EXPECT_EQ(accepted("FLAGS: {migstrategy: single, PLUGIN: {DeviceIdStrategy: index}}").flags.mig_strategy,
            MigStrategy::kSingle);
  EXPECT_TRUE(accepted("Imex: {ChannelIds: [0]}").imex.channel);
}

// Promise: config: Keys that NVIDIA ignores in silence are a warning.
TEST(ParseTest, WhatNvidiaIgnoresInSilenceIsAWarning) {
  EXPECT_THAT(
      said("flags:\n  migStrateg: single\n"),
      ElementsAre("c:2:3: warning: flags.migStrateg: is not a known key and is ignored; did you mean migStrategy?"));
  EXPECT_THAT(said("flags:\n  migStrategy: single\n  migStrategy: mixed\n"),
              ElementsAre(HasSubstr(
                  "c:2:16: warning: flags.migStrategy: has no effect, because it is written again in line 3")));
  EXPECT_EQ(accepted("flags:\n  migStrategy: single\n  migStrategy: mixed\n").flags.mig_strategy, MigStrategy::kMixed);
}

// Promise: config: A key in the wrong section is named with its section.
TEST(ParseTest, AKeyInTheWrongSectionIsReportedWhereItBelongs) {
  EXPECT_THAT(said("migStrategy: single\n"), ElementsAre(HasSubstr("write it as flags.migStrategy")));
  EXPECT_THAT(said("flags: {DeviceListStrategy: cdi-cri}"),
              ElementsAre(HasSubstr("write it as flags.plugin.deviceListStrategy")));
  EXPECT_THAT(said("timeSlicing: {}"), ElementsAre(HasSubstr("write it as sharing.timeSlicing")));
  EXPECT_THAT(said("flags: {channelIDs: [0]}"), ElementsAre(HasSubstr("write it as imex.channelIDs")));
  for (const std::string section : {"timeSlicing", "mps"}) {
    const std::string shares = "sharing: {" + section + ": {resources: [{name: gpu, replicas: 4}]}}\n";
    EXPECT_THAT(said(shares + "flags: {renameByDefault: true}"),
                ElementsAre(HasSubstr("write it as sharing." + section + ".renameByDefault")));
    EXPECT_THAT(said(shares + "flags: {replicas: 4}"),
                ElementsAre(HasSubstr("write it as sharing." + section + ".resources[].replicas")));
    EXPECT_THAT(said(shares + "mig-configs: {}"), ElementsAre(HasSubstr("is a configuration of the MIG manager")));
  }
  EXPECT_THAT(said("sharing: {mig: {}}"), Contains(HasSubstr("write {name: nvidia.com/mig-1g.10gb, replicas: 2}")));
}

// The requests of HAMi's and GKE's documentation.
TEST(ParseTest, WhatAPodAsksOfAnotherSchemeIsRecognised) {
  EXPECT_THAT(
      said("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n"
           "        nvidia.com/gpu: 1\n        nvidia.com/gpumem: 3000\n        nvidia.com/gpucores: 30\n"),
      ElementsAre(HasSubstr("is a Kubernetes object (kind \"Pod\")"),
                  AllOf(HasSubstr("c:8:9: error: spec.containers[0].resources.limits.nvidia.com/gpumem: is HAMi's"),
                        HasSubstr("set slotMemory (for example 1Gi)")),
                  AllOf(HasSubstr("c:9:9: error: "), HasSubstr("write replicas: 100"))));
  EXPECT_THAT(said("apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector:\n"
                   "    cloud.google.com/gke-gpu-sharing-strategy: mps\n"
                   "    cloud.google.com/gke-max-shared-clients-per-gpu: \"4\"\n"),
              ElementsAre(HasSubstr("is a Kubernetes object"),
                          AllOf(HasSubstr("c:5:5: error: "), HasSubstr("nvidia.com/gpu.sharing-strategy")),
                          AllOf(HasSubstr("c:6:5: error: "), HasSubstr("nvidia.com/gpu.replicas"))));
  EXPECT_THAT(said("nvidia:\n  resourceCountName: nvidia.com/gpu\n  deviceSplitCount: 10\n"),
              ElementsAre(HasSubstr("c:1:1: error: is a configuration of HAMi")));
}

TEST(ParseTest, AKeyWithAnAnchorInUseIsLeftAlone) {
  const std::string entry = "sharing: {mps: {resources: [*r]}}\n";
  const std::string anchor = "x-common: {of: &r {name: gpu, replicas: 4}}\n";
  EXPECT_THAT(parse(anchor + entry, "c", UnknownKeys::kRefused).problems, IsEmpty());
  EXPECT_THAT(said("x-common: &r {a: 1}\nimex: {}"), ElementsAre(HasSubstr("remove it"))) << "not in use";
}

// Promise: config: With `--strict` keys without effect are errors.
TEST(ParseTest, KeysWithoutEffectAreErrorsWhenRefused) {
  for (const char* text :
       {"foo: 1\nimex: {}", "flags: {migStrategy: none, migStrategy: none}", "flags: {passDeviceSpecs: true}",
        "sharing: {mps: {Resources: [], resources: [{name: gpu, replicas: 2}]}}"}) {
    EXPECT_FALSE(has_error(parse(text, "c").problems)) << text;
    const Parsed strict = parse(text, "c", UnknownKeys::kRefused);
    EXPECT_THAT(strict.problems, SizeIs(1)) << text;
    EXPECT_TRUE(has_error(strict.problems)) << text;
  }
  for (const char* text : {"resources: {gpus: []}", "flags: {gfd: {sleepInterval: 5}}"})
    EXPECT_FALSE(has_error(parse(text, "c", UnknownKeys::kRefused).problems)) << text << ": a known key";
}

// Promise: config: Types are strict.
TEST(ParseTest, TypesAreStrict) {
  struct Row {
    const char* text;
    const char* says;
  };
  for (const Row& row : {
           Row{"flags: 5", "must be a mapping, but is the number 5"},
           Row{"imex: {channelIDs: [0, 0]}", "must be empty or the one channel 0"},
           Row{"imex: {channelIDs: [0.5]}", "must be a whole number, but is the number 0.5"},
       }) {
    const Parsed parsed = parse(row.text, "c");
    EXPECT_TRUE(has_error(parsed.problems)) << row.text;
    EXPECT_THAT(said(row.text), testing::Contains(HasSubstr(row.says))) << row.text;
  }
}

// Promise: config: Values of a fixed set are checked.
TEST(ParseTest, WordsAreChecked) {
  EXPECT_THAT(said("flags: {migStrategy: \"\"}"), ElementsAre(HasSubstr("write one of these words")));
  EXPECT_THAT(parse("flags: {migStrategy: Single}", "c").bad_words, ElementsAre("flags.migStrategy"));
}

TEST(ParseTest, ListStrategyIsOneWordOrAList) {
  EXPECT_THAT(accepted("flags: {plugin: {deviceListStrategy: cdi-cri}}").flags.plugin.device_list_strategy,
              ElementsAre(ListStrategy::kCdiCri));
  EXPECT_THAT(accepted("flags: {plugin: {deviceListStrategy: null}}").flags.plugin.device_list_strategy,
              ElementsAre(ListStrategy::kEnvvar));
}

TEST(ParseTest, SleepIntervalWithoutAUnitIsNanoseconds) {
  EXPECT_EQ(accepted("flags: {gfd: {sleepInterval: 5}}").flags.gfd.sleep_interval, Duration(5));
  EXPECT_THAT(said("flags: {gfd: {sleepInterval: 5}}"), ElementsAre(HasSubstr("write a unit: 5s")));
  EXPECT_EQ(accepted("flags: {gfd: {sleepInterval: 6e10}}").flags.gfd.sleep_interval, Duration(60s));
  EXPECT_EQ(accepted("flags: {gfd: {sleepInterval: infinite}}").flags.gfd.sleep_interval, kInfinite);
}

TEST(ParseTest, NullIsAbsent) {
  EXPECT_EQ(accepted("flags: {migStrategy: null, failOnInitError: ~, gfd: , plugin: {passDeviceSpecs: null}}"),
            Config{});
}

// Promise: config: All problems are listed, in the order of the file.
TEST(ParseTest, AllProblemsAreSaidInFileOrder) {
  const auto problems = said("sharing:\n  mps: {}\nflags:\n  migStrategy: x\n  failOnInitError: 3\nversion: v9\n");
  EXPECT_THAT(problems, ElementsAre(HasSubstr("c:2:8"), HasSubstr("c:4:16"), HasSubstr("c:5:20"), HasSubstr("c:6:10")));
}

TEST(ParseTest, KnowsWhatTheFileGives) {
  const Parsed parsed = parse("flags:\n  migStrategy: single\n  mpsRoot: null\n", "c");
  ASSERT_EQ(parsed.given.size(), 1u);
  EXPECT_EQ(parsed.given.at("flags.migStrategy"), (Place{"c", 2, 16}));
}

TEST(ParseTest, OnlyTheVersionItselfIsKnown) {
  for (const char* version : {"v10", "v1beta1", "v1.0", "\"v1 \"", "V1"})
    EXPECT_THAT(said(std::string("version: ") + version), ElementsAre(HasSubstr("only v1 is known"))) << version;
}

// A ConfigMap can hold 310,000 such lines; each would be a line of the log, and all together one status document.
TEST(ParseTest, AKeyCannotControlTheTerminal) {
  EXPECT_THAT(said("imex: {}\n\"\\e[2J\\x9bK\": 1"),
              ElementsAre(HasSubstr(R"(warning: \x1b[2J\xc2\x9bK: is not a known key)")));
}

TEST(ParseTest, ManyProblemsAreListedToAHundred) {
  std::string text = "version: v1\nimex: {}\n";
  for (int i = 0; i < 20'000; ++i) text += "a: 1\n";
  const Parsed warned = parse(text, "c");
  ASSERT_EQ(warned.problems.size(), 101u);
  EXPECT_FALSE(has_error(warned.problems));
  EXPECT_THAT(warned.problems.back().what, HasSubstr("19900 more problems"));
  const Parsed refused = parse(text, "c", UnknownKeys::kRefused);
  ASSERT_EQ(refused.problems.size(), 101u);
  EXPECT_TRUE(has_error(refused.problems));
  EXPECT_THAT(refused.problems.back().what, HasSubstr("at least 1 more problems (1 of them errors)"))
      << "it stops there";
}

TEST(ParseTest, AProblemDoesNotQuoteAMegabyte) {
  const Parsed parsed = parse(std::string(500'000, 'k') + ": 1\nversion: " + std::string(500'000, '7') + "\n", "c");
  for (const Problem& problem : parsed.problems) EXPECT_LT(to_string(problem).size(), 3000u);
}

}  // namespace parse_test
}  // namespace tranche::config
