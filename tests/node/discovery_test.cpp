// What a node is found to be and what becomes of it, as the real programs and kubelet see it: drivers that come late
// or go, platforms without an ordinary driver, MIG layouts that do not fit, nodes that are missing.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <filesystem>

#include "golden/golden.h"
#include "node/bed.h"
#include "node/http_get.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class NodeDiscovery : public NodeBed {
 protected:
  Program& start_listening(const std::string& config) {
    write("config.yaml", config);
    start_kubelet();
    Program& node = start_node({"--listen", "127.0.0.1:0"});
    until_says(node, "http.listening");
    return node;
  }
  std::string ready_page(const Program& node) { return http_get(pages_of(node), "/readyz"); }
  Json until_ready(bool ready) {
    return until_node([ready](const Json& status) { return status["ready"] == ready; });
  }
  Json until_reason(const std::string& text) {
    return until_node(
        [&](const Json& s) { return s["readyReason"].get<std::string>().find(text) != std::string::npos; });
  }
  void put(const std::string& path, const std::string& text = "") {
    fs::create_directories(fs::path(in(path)).parent_path());
    write(path, text);
  }
  // Of a GPU's PCI function, as sysfs writes it: with four digits of the domain.
  std::string address(int gpu) {
    const std::string shown = shown_node();
    const auto at = shown.find("00000000:", shown.find(uuid(gpu)));
    std::string found = shown.substr(at + 4, 12);
    std::ranges::transform(found, found.begin(), [](unsigned char c) { return std::tolower(c); });
    return found;
  }
  std::vector<std::string> ids() {
    std::vector<std::string> all;
    for (const auto& device : kubelet().view(kGpu).devices) all.push_back(device.id);
    return all;
  }
};

// Promise: discovery: A late driver is an error and not ready until it comes.
// Promise: driver/library: A driver that comes late is waited for.
TEST_F(NodeDiscovery, ALateDriverIsAnErrorAndNotReadyUntilItComes) {
  make_node(2);
  sim_node({"driver", "absent"});
  Program& node = start_listening("version: v1\n");
  const auto waiting = until_reason("not loaded");
  EXPECT_EQ(waiting["ready"], false);
  EXPECT_THAT(ready_page(node), AllOf(HasSubstr(" 503 "), HasSubstr("waiting for the driver: ")));
  EXPECT_THAT(http_get(pages_of(node), "/healthz"), HasSubstr(" 200 "));
  EXPECT_TRUE(until_says(node, "\"level\":\"error\",\"event\":\"driver.waiting\""));
  sim_node({"driver", "present"});
  ASSERT_TRUE(until_healthy(2));
  until_ready(true);
  EXPECT_THAT(ready_page(node), AllOf(HasSubstr(" 200 "), HasSubstr("1 resource is served")));
  EXPECT_TRUE(node.running());
}

// Promise: discovery: With `failOnInitError: false` a node without a driver is idle and serves later.
TEST_F(NodeDiscovery, WithFailOnInitErrorOffANodeWithoutADriverIsIdleAndServesWhenOneComes) {
  make_node(1);
  sim_node({"driver", "absent"});
  Program& node = start_listening("version: v1\nflags: {failOnInitError: false}\n");
  const auto idle = until_reason("not loaded");
  EXPECT_EQ(idle["ready"], true);
  EXPECT_THAT(ready_page(node), AllOf(HasSubstr(" 200 "), HasSubstr("idle without a driver")));
  EXPECT_TRUE(until_says(node, "\"level\":\"info\",\"event\":\"driver.waiting\""));
  EXPECT_THAT(node.err(), Not(HasSubstr("\"level\":\"error\"")));
  sim_node({"driver", "present"});
  ASSERT_TRUE(until_healthy(1));
}

TEST_F(NodeDiscovery, WithACdiStrategyALateDriverIsWaitedForToo) {
  make_node(1);
  sim_node({"driver", "absent"});
  for (const char* fail : {"true", "false"}) {
    put("config.yaml", std::string("version: v1\nflags: {failOnInitError: ") + fail +
                           ", plugin: {deviceListStrategy: [cdi-cri, cdi-annotations]}}\n");
    Program& node = start_node();
    until_reason("not loaded");
    EXPECT_TRUE(node.running()) << fail;
    stop(node, SIGTERM, 0);
  }
}

// Promise: driver/hotplug: Both programs notice a GPU that comes or goes.
TEST_F(NodeDiscovery, AGpuThatIsPluggedInOrPulledIsNoticedByItselfByBothPrograms) {
  make_node(2);
  sim_node({"gpu", "1", "unplug"});
  put("root/dev/nvidia0");
  put("config.yaml", sharing("mps", 4));
  start_kubelet();
  Program& mps = start_mps({"--system-root", in("root")});
  Program& node = start_node({"--system-root", in("root")});
  ASSERT_TRUE(until_healthy(4));
  until_serving(1);
  sim_node({"gpu", "1", "plug"});
  put("root/dev/nvidia1");
  until_serving(2);
  ASSERT_TRUE(until_healthy(8));
  EXPECT_TRUE(until_says(node, "inventory.changed"));
  EXPECT_EQ(until_node([](const Json& s) { return s["devices"].size() == 2; })["labels"]["nvidia.com/gpu.count"], "2");

  sim_node({"gpu", "1", "unplug"});
  fs::remove(in("root/dev/nvidia1"));
  ASSERT_TRUE(until_healthy_of(8, 4)) << "nobody can say that it has left: its ids stay, and nothing new lands";
  const auto without = until_node([](const Json& s) { return s["devices"][1]["healthy"] == false; });
  EXPECT_EQ(device_of(without, 1)["uuid"], uuid(1));
  sim_node({"gpu", "1", "plug"});
  put("root/dev/nvidia1");
  ASSERT_TRUE(until_healthy(8));
  EXPECT_TRUE(node.running() && mps.running()) << "the same processes all the time";
}

// Promise: driver/hotplug: A GPU that has left the machine leaves kubelet's list.
TEST_F(NodeDiscovery, AGpuThatHasLeftTheMachineLeavesKubeletsListToo) {
  make_node(2);
  const std::string function = in("root/sys/bus/pci/devices/" + address(1));
  const std::string link_to = "../../../devices/pci0000:00/" + address(1);
  fs::create_directories(in("root/sys/devices/pci0000:00/" + address(1)));
  fs::create_directories(in("root/sys/bus/pci/devices"));
  fs::create_directory_symlink(link_to, function);
  for (const char* device : {"root/dev/nvidia0", "root/dev/nvidia1"}) put(device);
  put("config.yaml", sharing("mps", 4));
  start_kubelet();
  start_mps({"--system-root", in("root")});
  start_node({"--system-root", in("root")});
  ASSERT_TRUE(until_healthy(8));
  std::string held;  // a slot of GPU 1
  for (const char* pod : {"a", "b"}) {
    const auto grant = admitted(kubelet(), pod, 1);
    if (grant.envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").starts_with(uuid(1))) held = pod;
  }
  ASSERT_NE(held, "") << "kubelet's choice is spread";
  until_node([](const Json& s) { return s["grants"].size() == 2; });
  sim_node({"gpu", "1", "unplug"});
  fs::remove(function);
  fs::remove(in("root/dev/nvidia1"));
  ASSERT_TRUE(until_healthy_of(5, 4)) << "the slot that a container holds stays";
  kubelet().remove_pod("default/" + held);
  EXPECT_EQ(run({tranche(), "status", "--socket", node_socket()}), 0);  // whoever looks has kubelet asked
  ASSERT_TRUE(until_healthy_of(4, 4));
  until_serving(1);
  fs::create_directory_symlink(link_to, function);
  sim_node({"gpu", "1", "plug"});
  put("root/dev/nvidia1");
  ASSERT_TRUE(until_healthy(8)) << "and it is welcome again";
  until_serving(2);
}

// Promise: driver/library: A different driver is opened and reported without a restart.
TEST_F(NodeDiscovery, AChangedDriverIsOpenedAndReportedWithoutARestart) {
  make_node(1);
  const std::string library = in("driver/usr/lib64/libnvidia-ml.so.1");
  fs::create_directories(in("driver/usr/lib64"));
  fs::copy_file(build() + "/standins/libnvidia-ml.so.1", library);
  Program& node = start_listening("version: v1\n");
  ASSERT_TRUE(until_healthy(1));
  const auto version = [](const Json& s) { return s["labels"].value("nvidia.com/cuda.driver-version.full", ""); };
  until_node([&](const Json& s) { return version(s) == "580.159.04"; });
  sim_node({"driver", "absent"});
  sim_node({"fail", "*", "15"});  // whoever still asks the old library
  ASSERT_TRUE(until_healthy_of(1, 0));
  sim_node({"driver", "version", "590.44.01", "--cuda", "13010"});
  fs::copy_file(library, library + ".new");
  fs::rename(library + ".new", library);
  sim_node({"clear"});
  sim_node({"driver", "present"});
  ASSERT_TRUE(until_healthy(1));
  const auto status = until_node([&](const Json& s) { return version(s) == "590.44.01"; });
  EXPECT_EQ(status["driver"]["version"], "590.44.01");
  EXPECT_EQ(status["labels"]["nvidia.com/cuda.runtime-version.full"], "13.1");
  EXPECT_TRUE(until_says(node, "the driver is 590.44.01 now, and was 580.159.04"));
  EXPECT_TRUE(node.running());
}

TEST_F(NodeDiscovery, WithoutKubeletItIsNotReadyUnlessItIsConfiguredNotToRegister) {
  make_node(1);
  put("config.yaml", "version: v1\n");
  Program& node = start_node();
  const auto alone = until_reason("nvidia.com/gpu is not registered with kubelet");
  EXPECT_EQ(alone["ready"], false);
  stop(node, SIGTERM, 0);
  start_node({"--kubelet-socket", ""});
  EXPECT_THAT(until_ready(true)["readyReason"].get<std::string>(), HasSubstr("1 resource is served"));
}

// Promise: discovery: A Tegra system is one device without a driver library.
TEST_F(NodeDiscovery, ATegraSystemIsOneDeviceWithoutADriverLibrary) {
  make_node(1);
  put("driver/etc/nv_tegra_release", "# R36 (release)");
  put("config.yaml", "version: v1\n");
  fs::create_directory(in("empty"));
  start_kubelet();
  start_tranche("node", {}, {{"LD_LIBRARY_PATH", in("empty")}});
  ASSERT_TRUE(until_healthy(1));
  EXPECT_EQ(ids(), Strings{"tegra"});
  EXPECT_EQ(until_ready(true)["driver"]["platform"], "tegra");
  const auto grant = admitted(kubelet(), "a", 1);
  EXPECT_EQ(grant.envs.at("NVIDIA_VISIBLE_DEVICES"), "tegra");
}

// Promise: cdi: The specification of a Tegra system has the files of NVIDIA's lists.
TEST_F(NodeDiscovery, ATegraSystemsSpecificationHasTheFilesOfNvidiasLists) {
  make_node(1);
  put("driver/etc/nv_tegra_release", "# R36 (release)");
  put("driver/usr/lib/tegra/libcuda.so.1.1", "x");
  put("driver/usr/share/tegra/models/a", "x");
  put("driver/etc/nvidia-container-runtime/host-files-for-container.d/drivers.csv",
      "lib, /usr/lib/tegra/libcuda.so.1.1\ndir, /usr/share/tegra/models\nsym, /usr/share/tegra/absent\nodd, /x\n");
  put("config.yaml", "version: v1\nflags: {plugin: {deviceListStrategy: [cdi-cri]}}\n");
  fs::create_directory(in("empty"));
  start_kubelet();
  start_tranche("node", {"--cdi-root", in("cdi")}, {{"LD_LIBRARY_PATH", in("empty")}});
  ASSERT_TRUE(until_healthy(1));
  const std::string spec = in("cdi/k8s.device-plugin.nvidia.com-gpu.json");
  ASSERT_TRUE(until([&] { return fs::exists(spec); }, "the specification"));
  const std::string text = golden::read(spec);
  EXPECT_THAT(text, AllOf(HasSubstr(R"("/usr/lib/tegra/libcuda.so.1.1")"), HasSubstr(R"("/usr/share/tegra/models")")));
}

TEST_F(NodeDiscovery, ATegraSystemIsTakenForAnOrdinaryOneWhenTheStrategySaysSo) {
  make_node(1);
  put("driver/sys/devices/soc0/family", "Tegra\n");
  put("config.yaml", "version: v1\nflags: {deviceDiscoveryStrategy: nvml}\n");
  fs::create_directory(in("empty"));
  start_kubelet();
  start_tranche("node", {}, {{"LD_LIBRARY_PATH", in("empty")}});
  EXPECT_EQ(until_reason("waiting for the driver: the NVIDIA driver library cannot be opened")["ready"], false);
  put("config.yaml", "version: v1\nflags: {deviceDiscoveryStrategy: auto}\n");
  ASSERT_TRUE(until_healthy(1));
  EXPECT_EQ(ids(), Strings{"tegra"}) << "another strategy in the file is followed without a restart";
}

// Promise: discovery: Under WSL all GPUs are one device with one node.
TEST_F(NodeDiscovery, UnderWslAllGpusAreOneDeviceWithOneNode) {
  make_node(3);
  fs::create_directories(in("driver/usr/lib64"));
  fs::copy_file(build() + "/standins/wsl/libdxcore.so", in("driver/usr/lib64/libdxcore.so"));
  put("config.yaml", "version: v1\nflags: {plugin: {passDeviceSpecs: true}}\n");
  start_kubelet();
  start_node();
  ASSERT_TRUE(until_healthy(1));
  EXPECT_EQ(ids(), Strings{"all"});
  EXPECT_EQ(until_ready(true)["driver"]["platform"], "wsl");
  const auto grant = admitted(kubelet(), "a", 1);
  EXPECT_EQ(grant.envs.at("NVIDIA_VISIBLE_DEVICES"), "all");
  ASSERT_EQ(grant.devices.size(), 1u);
  EXPECT_EQ(grant.devices[0].container_path, "/dev/dxg");
}

// Promise: cdi: The specification of a node under WSL has Windows' driver files.
TEST_F(NodeDiscovery, TheSpecificationUnderWslHasWindowsDriverFiles) {
  make_node(1);
  fs::create_directories(in("driver/usr/lib64"));
  fs::copy_file(build() + "/standins/wsl/libdxcore.so", in("driver/usr/lib64/libdxcore.so"));
  fs::create_directories(in("driver/dev"));
  if (::mknod(in("driver/dev/dxg").c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "no mknod here";
  put("driver/usr/lib/wsl/lib/libcuda.so.1.1", "x");
  put("driver/usr/lib/wsl/lib/nvidia-smi", "x");
  put("config.yaml", "version: v1\nflags: {plugin: {deviceListStrategy: [cdi-cri]}}\n");
  start_kubelet();
  start_node({"--cdi-root", in("cdi")});
  ASSERT_TRUE(until_healthy(1));
  const std::string spec = in("cdi/k8s.device-plugin.nvidia.com-gpu.json");
  ASSERT_TRUE(until([&] { return fs::exists(spec); }, "the specification"));
  EXPECT_THAT(golden::read(spec), AllOf(HasSubstr(R"("/usr/lib/wsl/lib/libcuda.so.1.1")"), HasSubstr(R"("/dev/dxg")"),
                                        HasSubstr(R"("/usr/lib/wsl/lib/nvidia-smi")")));
}

// Promise: plan/mig: A layout that does not fit is refused and served once it fits.
TEST_F(NodeDiscovery, MigDevicesThatAreUnlikeAreRefusedInWordsAndServedOnceTheyAreAlike) {
  make_node(1);
  sim_node({"gpu", "0", "mig", "3g.71gb", "1g.18gb"});
  Program& node = start_listening("version: v1\nflags: {migStrategy: single}\n");
  const auto refused = until_reason("that is unlike");
  EXPECT_EQ(refused["ready"], false);
  EXPECT_THAT(refused["resources"], IsEmpty());
  EXPECT_THAT(ready_page(node), AllOf(HasSubstr(" 503 "), HasSubstr("make all MIG devices of the node alike")));
  sim_node({"gpu", "0", "mig", "1g.18gb", "1g.18gb", "1g.18gb"});
  ASSERT_TRUE(until_healthy(3));
  until_ready(true);
  EXPECT_TRUE(node.running()) << "the same process all the time";
}

TEST_F(NodeDiscovery, AConfigurationThatDoesNotFitTheHardwareLeavesWhatWasServed) {
  make_node(1);
  sim_node({"gpu", "0", "mig", "1g.18gb", "1g.18gb"});
  start_listening("version: v1\nflags: {migStrategy: single}\n");
  ASSERT_TRUE(until_healthy(2));
  write("config.yaml",
        "version: v1\nflags: {migStrategy: single}\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: "
        "2}]}}\n");
  const auto refused = until_reason("MPS shares whole GPUs only");
  EXPECT_EQ(refused["resources"][0]["healthy"], 2) << "the last plan that could be made";
}

TEST_F(NodeDiscovery, MigDevicesThatAreGoneAreUnhealthyEvenWhereNoNewPlanFits) {
  make_node(1);
  sim_node({"gpu", "0", "mig", "1g.18gb", "1g.18gb"});
  start_listening("version: v1\nflags: {migStrategy: single}\n");
  ASSERT_TRUE(until_healthy(2));
  sim_node({"gpu", "0", "mig", "3g.71gb", "1g.18gb"});
  ASSERT_TRUE(until_healthy_of(2, 0)) << "they must not be handed out";
  EXPECT_THAT(device_of(until_ready(false), 0)["reason"].get<std::string>(), HasSubstr("does not exist any more"));
  sim_node({"gpu", "0", "mig", "3g.71gb", "3g.71gb"});
  ASSERT_TRUE(until_healthy(2));
  until_ready(true);
}

// Promise: discovery: Display GPUs are skipped and the others keep their indices.
TEST_F(NodeDiscovery, ADisplayGpuIsSkippedAndTheOthersKeepTheirIndices) {
  write("node/node.yaml", "gpus: [{profile: DGX-Display}, {profile: H200}, {profile: H200}]\ntopology: vm\n");
  put("config.yaml", "version: v1\nflags: {plugin: {deviceIDStrategy: index}}\n");
  start_kubelet();
  start_node();
  ASSERT_TRUE(until_healthy(2));
  const auto status = until_ready(true);
  EXPECT_EQ(status["devices"][0]["index"], "1");
  EXPECT_EQ(status["devices"][1]["index"], "2");
  EXPECT_THAT(status["leftOut"][0]["why"].get<std::string>(), HasSubstr("display GPU (NVIDIA DGX Display)"));
  EXPECT_EQ(admitted(kubelet(), "a", 2).envs.at("NVIDIA_VISIBLE_DEVICES"), "1,2");
}

class NodeImex : public NodeDiscovery {
 protected:
  // A character device where the driver would put its own; skipped where this user may not make one.
  bool make_channel() {
    const std::string node = in("driver/dev/nvidia-caps-imex-channels/channel0");
    fs::create_directories(fs::path(node).parent_path());
    return ::mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  }
};

// Promise: discovery: A required IMEX channel that is missing holds all devices back until it is there.
TEST_F(NodeImex, ARequiredChannelThatIsMissingHoldsEverythingBackUntilItIsThere) {
  make_node(2);
  Program& node = start_listening("version: v1\nimex: {channelIDs: [0], required: true}\n");
  ASSERT_TRUE(until_healthy_of(2, 0));
  const auto held = until_reason("imex.required: is true for channel 0");
  EXPECT_EQ(held["ready"], false);
  EXPECT_THAT(device_of(held, 0)["reason"].get<std::string>(), HasSubstr("IMEX channel 0 is required"));
  if (!make_channel()) GTEST_SKIP() << "this user may not make device nodes";
  ASSERT_TRUE(until_healthy(2)) << "found by looking again, without a restart or a scan";
  until_ready(true);
  EXPECT_TRUE(node.running());
  EXPECT_EQ(admitted(kubelet(), "a", 1).envs.at("NVIDIA_IMEX_CHANNELS"), "0");
}

// Promise: discovery: A missing IMEX channel that is not required is left out with a warning.
TEST_F(NodeImex, AMissingChannelThatIsNotRequiredIsLeftOutWithAWarning) {
  make_node(1);
  start_listening("version: v1\nimex: {channelIDs: [0]}\n");
  ASSERT_TRUE(until_healthy(1));
  const auto status = until_ready(true);
  EXPECT_THAT(status["planProblems"][0].get<std::string>(), HasSubstr("warning: imex.channelIDs: names channel 0"));
}

}  // namespace
}  // namespace tranche::e2e
