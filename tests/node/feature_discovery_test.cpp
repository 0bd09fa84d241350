// gpu-feature-discovery: the real program on a simulated node.
#include <csignal>

#include "config/keys.h"
#include "node/label_bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

using FeatureDiscovery = LabelBed;

TEST_F(FeatureDiscovery, OneshotWritesTheFileAndLeavesIt) {
  make_node(2);
  write("config.yaml", sharing("mps", 4));
  Program& gfd = start_file({"--oneshot", "--config-file", config_path_});
  ASSERT_EQ(finish(gfd), 0) << gfd.err();
  for (const char* line :
       {"nvidia.com/gpu.product=NVIDIA-H200-SHARED\n", "nvidia.com/gpu.count=2\n", "nvidia.com/gpu.replicas=4\n",
        "nvidia.com/gpu.machine=Example-Node\n", "nvidia.com/mps.capable=true\n", "nvidia.com/vgpu.present=false\n",
        "nvidia.com/gfd.timestamp=", "tranche.io/model.NVIDIA-H200.count=2\n"})
    EXPECT_THAT(file(), HasSubstr(line));
  EXPECT_EQ(gfd.out(), "");
}

TEST_F(FeatureDiscovery, SleepsAndLooksAgainWithTheSameTimestamp) {
  make_node(1);
  Program& gfd = start_file({"--sleep-interval", kShort});
  ASSERT_TRUE(until_written(gfd));
  const std::string before = file();
  fs::remove(in("features.d/gfd"));
  ASSERT_TRUE(until_written(gfd, 2));
  EXPECT_EQ(file(), before);
  EXPECT_NE(value(before, "nvidia.com/gfd.timestamp"), "(absent)");
  stop(gfd, SIGTERM, 0);
  Program& sleeper = start_file({"--sleep-interval", kLong, "--no-timestamp"});
  ASSERT_TRUE(until_written(sleeper));
  EXPECT_EQ(value(file(), "nvidia.com/gfd.timestamp"), "(absent)");
}

TEST_F(FeatureDiscovery, WithAnInfiniteIntervalItLabelsOnceAndOnEverySighup) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 2));
  Program& gfd = start_file({"--sleep-interval", "infinite", "-config-file=" + config_path_});
  ASSERT_TRUE(until_written(gfd));
  EXPECT_EQ(value(file(), "nvidia.com/gpu.replicas"), "2");
  write("config.yaml", sharing("timeSlicing", 3));
  gfd.signal(SIGHUP);
  ASSERT_TRUE(until_written(gfd, 2));
  EXPECT_EQ(value(file(), "nvidia.com/gpu.replicas"), "3");
  stop(gfd, SIGTERM, 0);
  EXPECT_EQ(value(file(), "nvidia.com/gpu.replicas"), "3") << "nobody was to keep it anyway";
}

// Promise: feature-discovery: The program ends with status 0 on every signal and removes its file.
TEST_F(FeatureDiscovery, EndsWellOnEverySignalAndRemovesItsFile) {
  make_node(1);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) {
    Program& gfd = start_file({"--sleep-interval", kLong});
    ASSERT_TRUE(until_written(gfd));
    fs::create_directory(in("features.d/gfd-tmp"));
    write("features.d/others", "x=y\n");
    stop(gfd, signal, 0);
    EXPECT_EQ(file(), "(none)");
    EXPECT_FALSE(fs::exists(in("features.d/gfd-tmp")));
    EXPECT_TRUE(fs::exists(in("features.d/others")));
  }
}

TEST_F(FeatureDiscovery, PrintsWhereThereIsNoFile) {
  make_node(1);
  Program& gfd = start_file({"--oneshot", "--output-file="});
  ASSERT_EQ(finish(gfd), 0) << gfd.err();
  EXPECT_EQ(value(gfd.out(), "nvidia.com/gpu.count"), "1");
}

// Promise: feature-discovery: The NodeFeature object is kept.
TEST_F(FeatureDiscovery, KeepsTheNodeFeatureObject) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 2));
  Program& gfd = start_object({"--sleep-interval", kShort, "--config-file", config_path_, "--kube-api-qps", "7.5"});
  ASSERT_TRUE(until_written(gfd));
  EXPECT_EQ(object(kFeatures, kObject)["spec"]["labels"]["nvidia.com/gpu.replicas"], "2");
  EXPECT_EQ(object(kFeatures, kObject)["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"], "n1");
  write("config.yaml", sharing("timeSlicing", 3));
  ASSERT_TRUE(until_written(gfd, 2));
  EXPECT_EQ(object(kFeatures, kObject)["spec"]["labels"]["nvidia.com/gpu.replicas"], "3");
  stop(gfd, SIGTERM, 0);
  EXPECT_EQ(object(kFeatures, kObject)["spec"]["labels"]["nvidia.com/gpu.replicas"], "3") << "it stays";
  EXPECT_EQ(requests("POST", kFeatures), 1u);
  EXPECT_EQ(requests("PUT", kFeatures), 1u);
  EXPECT_EQ(requests("GET", kFeatures), 2u) << "rounds that change nothing ask nobody";
}

TEST_F(FeatureDiscovery, WithoutADriverItEndsWithStatusOne) {
  make_node(1);
  sim_node({"driver", "absent"});
  Program& gfd = start_file({"--oneshot"});
  EXPECT_EQ(finish(gfd), 1);
  EXPECT_THAT(gfd.err(), HasSubstr("labels.no_driver"));
  EXPECT_EQ(file(), "(none)");
}

TEST_F(FeatureDiscovery, WithFailOnInitErrorOffADriverThatComesLaterIsLabelled) {
  make_node(1);
  sim_node({"driver", "absent"});
  Program& gfd = start_file({"--fail-on-init-error=false", "--sleep-interval", kShort});
  ASSERT_TRUE(until_written(gfd));
  EXPECT_EQ(count(file(), "\n"), 2u) << file() << "the timestamp, and that no GPU is virtual";
  sim_node({"driver", "present"});
  ASSERT_TRUE(until_written(gfd, 2));
  EXPECT_EQ(value(file(), "nvidia.com/gpu.count"), "1");
}

// Promise: feature-discovery: A driver that is lost removes no label.
TEST_F(FeatureDiscovery, ADriverThatIsLostLaterTakesNoLabelAway) {
  make_node(1);
  Program& gfd = start_file({"--sleep-interval", kShort});
  ASSERT_TRUE(until_written(gfd));
  const std::string before = file();
  sim_node({"driver", "absent"});
  ASSERT_TRUE(until_says(gfd, "labels.no_driver"));
  EXPECT_EQ(file(), before);
  EXPECT_TRUE(gfd.running());
  sim_node({"driver", "present"});
  fs::remove(in("features.d/gfd"));
  ASSERT_TRUE(until_written(gfd, 2));
  EXPECT_EQ(file(), before);
}

TEST_F(FeatureDiscovery, AnEditedConfigurationIsInForceInTheNextRoundAndABrokenOneNever) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 2));
  Program& gfd = start_file({"--sleep-interval", kShort, "--config-file", config_path_});
  ASSERT_TRUE(until_written(gfd));
  write("config.yaml", "flags: {migStrategy: wrong}\n");
  ASSERT_TRUE(until_says(gfd, config_path_ + ":1:"));
  EXPECT_EQ(value(file(), "nvidia.com/gpu.replicas"), "2");
  write("config.yaml", sharing("timeSlicing", 5));
  ASSERT_TRUE(until_written(gfd, 2));
  EXPECT_EQ(value(file(), "nvidia.com/gpu.replicas"), "5");
  EXPECT_EQ(count(gfd.err(), config_path_ + ":1:"), 1u) << "a Problem is said once";
}

// Promise: feature-discovery: A refusal ends the program and a troubled server is asked again.
TEST_F(FeatureDiscovery, ARefusalEndsItAndATroubledServerIsAskedAgain) {
  make_node(1);
  api_->refuse(1, 503, "{}", [](const sim::ApiRequest& request) { return request.method == "POST"; });
  Program& gfd = start_object({"--sleep-interval", kLong});
  ASSERT_TRUE(until_says(gfd, "labels.not_written"));
  ASSERT_TRUE(until_written(gfd));
  stop(gfd, SIGTERM, 0);
  api_->refuse(1, 403, R"({"kind":"Status","message":"no right"})",
               [](const sim::ApiRequest& request) { return request.path.starts_with("/apis/"); });
  Program& refused = start_object({"--sleep-interval", kLong});
  EXPECT_EQ(finish(refused), 1);
  EXPECT_THAT(refused.err(), HasSubstr("no right"));
  Program& nowhere = start_file({"--output-file", in("absent/gfd")});
  EXPECT_EQ(finish(nowhere), 1);
}

// Promise: feature-discovery: Every flag and variable of NVIDIA's program is accepted.
TEST_F(FeatureDiscovery, TakesEveryFlagAndVariableOfNvidias) {
  const std::string gfd = program_name();
  Program& help = start({gfd, "--help"});
  ASSERT_EQ(finish(help), 0);
  std::size_t flags = 0;
  const auto some_value = [](const config::Key& setting) -> std::string {
    if (setting.type == config::KeyType::kSwitch) return "true";
    if (setting.type == config::KeyType::kDuration) return "30s";
    if (setting.path == "flags.migStrategy") return "mixed";
    if (setting.path == "flags.deviceDiscoveryStrategy") return "vfio";
    return "/some/where";
  };
  Environment environment = places();
  for (const auto& setting : config::settings_of(config::Program::kFeatureDiscovery)) {
    for (const auto variable : setting.variables) EXPECT_THAT(help.out(), HasSubstr("[$" + std::string(variable)));
    if (setting.path != config::kConfigFile) environment[std::string(setting.variables.front())] = some_value(setting);
    for (const auto flag : setting.flags) {
      ++flags;
      const std::string name(flag);
      Strings argv{gfd, "--config-file", in("absent.yaml")};
      if (name == "config-file") argv.resize(1);
      argv.push_back((name.size() == 1 ? "-" : "--") + name + "=" + some_value(setting));
      Program& program = start(argv);
      EXPECT_EQ(finish(program), 1) << name;
      EXPECT_THAT(program.err(), HasSubstr("error: cannot ")) << name;
    }
  }
  EXPECT_EQ(flags, 14u) << "11 flags and 3 second names";
  for (const char* own :
       {"--kubeconfig", "KUBECONFIG", "--namespace", "NAMESPACE", "--node-name", "NODE_NAME", "--pod-name", "POD_NAME",
        "--kube-api-qps", "KUBE_API_QPS", "--kube-api-burst", "KUBE_API_BURST"})
    EXPECT_THAT(help.out(), HasSubstr(own));
  // All variables at once: a oneshot of GPUs that are handed to virtual machines, for an object.
  environment["NODE_NAME"] = "n1";
  environment["NAMESPACE"] = "gpu";
  environment["KUBE_API_BURST"] = "20";
  Program& all = start({gfd}, environment);
  EXPECT_EQ(finish(all), 0) << all.err();
  EXPECT_EQ(run({gfd, "--version"}), 0);
}

TEST_F(FeatureDiscovery, EveryFailureAtStartEndsItWithStatusOne) {
  make_node(1);
  write("bad.yaml", "flags:\n  migStrategy: wrong\n");
  struct Row {
    Strings words;
    std::string says;
  };
  for (const Row& row :
       {Row{{"--config-file", in("bad.yaml")}, "bad.yaml:2:16: error: flags.migStrategy"},
        Row{{"--sleep-interval", "30"}, "--sleep-interval"},
        Row{{"--mig-strateg", "none"}, "did you mean --mig-strategy?"},
        Row{{"--device-discovery-strategy", "cuda"}, "vfio"}, Row{{"--kube-api-qps", "many"}, "--kube-api-qps"},
        Row{{"--oneshot"}, "give --node-name or $NODE_NAME"},
        Row{{"--oneshot", "--node-name", "n1", "--namespace="}, "give --namespace or $NAMESPACE"},
        Row{{"--oneshot", "--node-name", "n1", "--kubeconfig", in("absent")}, "--kubeconfig"}}) {
    Environment environment = places();
    Program& gfd = start_with(row.words, environment);
    EXPECT_EQ(finish(gfd), 1) << row.says;
    EXPECT_THAT(gfd.err(), HasSubstr(row.says));
  }
}

TEST_F(FeatureDiscovery, LabelsGpusThatAreHandedToVirtualMachines) {
  const std::string function = "root/sys/bus/pci/devices/0000:01:00.0";
  fs::create_directories(in(function));
  write(function + "/vendor", "0x10de\n");
  write(function + "/device", "0x2335\n");
  write(function + "/class", "0x030200\n");
  write(function + "/config", std::string(256, '\0'));
  write(function + "/resource", "0x0 0x0 0x0\n0x10000000000 0x13fffffffff 0x14220c\n");
  fs::create_directories(in("root/drivers/vfio-pci"));
  fs::create_symlink(in("root/drivers/vfio-pci"), in(function + "/driver"));
  Program& gfd = start_file({"--oneshot", "--device-discovery-strategy", "vfio"});
  ASSERT_EQ(finish(gfd), 0) << gfd.err();
  EXPECT_EQ(value(file(), "nvidia.com/gpu.product"), "UNKNOWN_DEVICE");
  EXPECT_EQ(value(file(), "nvidia.com/gpu.memory"), "262144");
  EXPECT_EQ(value(file(), "nvidia.com/gpu.count"), "1");
  EXPECT_EQ(value(file(), "nvidia.com/gpu.mode"), "compute");
  EXPECT_EQ(value(file(), "nvidia.com/cuda.driver.major"), "unknown");
  for (const char* absent : {"nvidia.com/gpu.compute.major", "nvidia.com/gpu.family", "nvidia.com/cuda.runtime.major"})
    EXPECT_EQ(value(file(), absent), "(absent)");
}

TEST_F(FeatureDiscovery, AsksTheCudaDriverOnTegra) {
  make_node(1);
  Program& gfd = start_file({"--oneshot", "--device-discovery-strategy", "tegra"});
  ASSERT_EQ(finish(gfd), 0) << gfd.err();
  EXPECT_EQ(value(file(), "nvidia.com/gpu.product"), "NVIDIA-H200");
  EXPECT_EQ(value(file(), "nvidia.com/gpu.compute.major"), "9");
  EXPECT_EQ(value(file(), "nvidia.com/cuda.runtime.major"), "13");
  EXPECT_EQ(value(file(), "nvidia.com/cuda.driver.major"), "unknown");
  EXPECT_EQ(value(file(), "nvidia.com/gpu.mode"), "unknown");
  EXPECT_EQ(value(file(), "nvidia.com/mig.capable"), "false");
}

}  // namespace
}  // namespace tranche::e2e
