// CDI specs as `tranche node` writes them and keeps them in step. Who reads them is tested in tests/cdi.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kGpuSpec = "cdi/k8s.device-plugin.nvidia.com-gpu.json";

class NodeCdi : public NodeBed {
 protected:
  void SetUp() override {
    if (!node("probe")) GTEST_SKIP() << "device nodes may not be made here (mknod)";
    make_node(2);
    for (const char* name : {"nvidia0", "nvidia1", "nvidiactl"}) ASSERT_TRUE(node(name));
    start_kubelet();
  }

  bool node(const std::string& name) const {
    fs::create_directories(in("driver/dev"));
    return ::mknod(in("driver/dev/" + name).c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  }
  void put_libcuda() const {
    fs::create_directories(in("driver/usr/lib64"));
    std::ofstream(in("driver/usr/lib64/libcuda.so.580.159.04")) << "x";
  }
  void configure(const std::string& strategy, const std::string& more = "") const {
    write("config.yaml", "version: v1\nflags:\n" + more + "  plugin:\n    deviceListStrategy: [" + strategy + "]\n");
  }
  Program& start_cdi() { return start_node({"--cdi-root", in("cdi")}); }

  Json spec(const std::string& name = kGpuSpec) const {
    std::ifstream file(in(name));
    return file ? Json::parse(file, nullptr, false) : Json();
  }
  Json until_spec(const std::function<bool(const Json&)>& condition) {
    Json last;
    until([&] { return (last = spec()).is_object() && condition(last); }, "a CDI spec");
    return last;
  }
  static std::vector<std::string> control_nodes(const Json& spec) {
    std::vector<std::string> paths;
    for (const auto& each : spec["containerEdits"]["deviceNodes"]) paths.push_back(each["path"]);
    return paths;
  }
};

TEST_F(NodeCdi, WritesNothingWithoutAStrategyThatUsesIt) {
  put_libcuda();
  configure("envvar");
  start_cdi();
  ASSERT_TRUE(until_healthy(2));
  EXPECT_EQ(until_node([](const Json&) { return true; })["cdiProblem"], "");
  EXPECT_FALSE(fs::exists(in("cdi")));
}

TEST_F(NodeCdi, SpecsNameTheGpusThatAreAdvertisedAndOutliveStrategyAndProgram) {
  put_libcuda();
  configure("cdi-cri, envvar");
  Program& program = start_cdi();
  ASSERT_TRUE(until_healthy(2));
  const Json written = until_spec([](const Json&) { return true; });
  EXPECT_EQ(written["kind"], "k8s.device-plugin.nvidia.com/gpu");
  EXPECT_EQ(written["devices"][0]["name"], uuid(0));
  EXPECT_EQ(written["devices"][1]["name"], uuid(1));
  EXPECT_EQ(written["containerEdits"]["env"][0], "NVIDIA_VISIBLE_DEVICES=void");

  configure("envvar");
  until_node([](const Json& status) { return status["cdiProblem"] == ""; });
  stop(program, SIGTERM, 0);
  EXPECT_EQ(spec(), written);
}

// Promise: cdi: A node that is missing is named and added when it appears.
TEST_F(NodeCdi, SaysWhichNodeIsMissingAndTakesItInWhenItAppears) {
  put_libcuda();
  configure("cdi-cri");
  start_cdi();
  EXPECT_THAT(control_nodes(until_spec([](const Json&) { return true; })), ElementsAre("/dev/nvidiactl"));
  until_node([](const Json& status) {
    return status["cdiProblem"].get<std::string>().starts_with("/dev/nvidia-uvm is not on the node");
  });
  ASSERT_TRUE(node("nvidia-uvm"));
  until_spec([](const Json& now) { return control_nodes(now).size() == 2; });
  until_node([](const Json& status) {
    return !status["cdiProblem"].get<std::string>().starts_with("/dev/nvidia-uvm is not on the node");
  });
}

// Promise: cdi: Without the driver's libraries no specification is written and this is reported.
TEST_F(NodeCdi, WritesNoSpecWithoutTheDriversLibrariesAndSaysSo) {
  configure("cdi-cri");
  start_cdi();
  const Json status = until_node([](const Json& now) { return now["cdiProblem"] != ""; });
  EXPECT_THAT(status["cdiProblem"].get<std::string>(), HasSubstr("libcuda.so.580.159.04 is in none of"));
  EXPECT_TRUE(until_healthy(2)) << "slots do not depend on it";
  EXPECT_FALSE(fs::exists(in("cdi")));
  put_libcuda();
  ASSERT_TRUE(node("nvidia-uvm"));  // the driver goes on installing: looked at again
  until_spec([](const Json&) { return true; });
}

TEST_F(NodeCdi, FollowsTheConfigurationAndRemovesAClassThatIsNotWantedAnyMore) {
  put_libcuda();
  ASSERT_TRUE(node("gdrdrv"));
  configure("cdi-annotations", "  gdrcopyEnabled: true\n");
  start_cdi();
  until([&] { return spec("cdi/k8s.device-plugin.nvidia.com-gdrcopy.json").is_object(); }, "the gdrcopy spec");
  configure("cdi-annotations");
  until([&] { return !fs::exists(in("cdi/k8s.device-plugin.nvidia.com-gdrcopy.json")); }, "its removal");
  EXPECT_TRUE(spec().is_object());
}

TEST_F(NodeCdi, AsksWhichWordOfItsFlagsWasMeant) {
  put_libcuda();
  configure("cdi-cri");
  start_node({"--cdi-root", in("cdi"), "--cdi-disable-hooks", "update-ldcach"});
  until_node([](const Json& status) {
    return status["config"]["problems"].dump().find("did you mean update-ldcache?") != std::string::npos;
  });
}

}  // namespace
}  // namespace tranche::e2e
