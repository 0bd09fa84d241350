// What people and Prometheus see: metrics, status, the demonstration.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "node/bed.h"
#include "node/http_get.h"
#include "os/clock/clock.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

using NodePages = NodeBed;
using NodeStatus = NodeBed;
using Demo = NodeBed;

TEST_F(NodePages, MetricsHealthAndStatusAreServedWhereTheLogSays) {
  make_node(2);
  write("config.yaml", sharing("mps", 5));
  start_kubelet();
  Program& mps = start_mps({"--listen", "127.0.0.1:0"});
  Program& node = start_node({"--listen", "127.0.0.1:0"});
  ASSERT_TRUE(until_healthy(10));
  ASSERT_TRUE(until_says(node, "http.listening"));
  ASSERT_TRUE(until_says(mps, "http.listening"));
  const auto address = pages_of(node);
  EXPECT_THAT(http_get(address, "/healthz"), AllOf(HasSubstr(" 200 "), HasSubstr("ok\n")));
  const auto page = http_get(address, "/metrics");
  EXPECT_THAT(page, HasSubstr("tranche_slots{"));
  for (const int gpu : {0, 1}) {
    EXPECT_THAT(page, HasSubstr("gpu=\"" + uuid(gpu) + "\",health=\"healthy\"} 5\n"));
    EXPECT_THAT(page, HasSubstr("gpu=\"" + uuid(gpu) + "\",health=\"unhealthy\"} 0\n"));
  }
  const auto status = http_get(address, "/status");
  const auto body = Json::parse(status.substr(status.find("\r\n\r\n") + 4), nullptr, false);
  EXPECT_EQ(body.value("program", ""), "node") << status;
  EXPECT_THAT(http_get(pages_of(mps), "/metrics"), HasSubstr("tranche_pool"));
  EXPECT_THAT(http_get(pages_of(mps), "/healthz"), HasSubstr("ok\n"));
}

TEST_F(NodePages, TrancheMpsIsReadyWhilePoolsServeAndNamesTheOneThatDoesNot) {
  make_node(2);
  write("config.yaml", sharing("mps", 5));
  Program& mps = start_mps({"--listen", "127.0.0.1:0"});
  ASSERT_TRUE(until_says(mps, "http.listening"));
  const auto address = pages_of(mps);
  const auto becomes = [&](const std::string& words) {
    return until([&] { return http_get(address, "/readyz").find(words) != std::string::npos; }, words);
  };
  EXPECT_TRUE(becomes("2 of 2 pools serve\n")) << http_get(address, "/readyz");
  EXPECT_THAT(http_get(address, "/readyz"), HasSubstr(" 200 "));
  write("config.yaml", "version: v1\n");
  EXPECT_TRUE(becomes("nothing is shared by MPS\n")) << http_get(address, "/readyz");
  EXPECT_THAT(http_get(address, "/readyz"), HasSubstr(" 200 "));
  write("mps/other-holders", uuid(0) + "\n" + uuid(1) + "\n");
  write("config.yaml", sharing("mps", 5));
  EXPECT_TRUE(becomes("0 of 2 pools serve; ")) << http_get(address, "/readyz");
  EXPECT_THAT(http_get(address, "/readyz"), HasSubstr(" 503 "));
  EXPECT_THAT(http_get(address, "/healthz"), HasSubstr(" 200 ")) << "alive all the while";
  write("mps/other-holders", uuid(1) + "\n");
  // It is not, for a moment, until it is known that the other waits for holders and does not just begin.
  EXPECT_TRUE(until(
      [&] {
        const std::string page = http_get(address, "/readyz");
        return page.find(" 200 ") != std::string::npos && page.find("1 of 2 pools serve; ") != std::string::npos;
      },
      "ready with one of two pools"))
      << http_get(address, "/readyz");
}

TEST_F(NodeStatus, AProbeHoldsItsMemoryUntilItIsEnded) {
  make_node(1);
  Program& probe = start({tranche(), "probe", "--hold", "--allocate", "512M"});
  ASSERT_TRUE(until([&] { return probe.out().find("times ") != std::string::npos; }, "the probe's report"));
  EXPECT_THAT(probe.out(), AllOf(HasSubstr(uuid(0)), HasSubstr("512 MiB granted"), HasSubstr("right (")));
  EXPECT_TRUE(probe.running());
  stop(probe, SIGTERM, 0);
}

TEST_F(NodePages, AGpuThatTheConfigurationKeepsOutIsInNothingAndComesBackWithTheNextFile) {
  make_node(2);
  write("config.yaml", "devices: {exclude: [\"1\"]}\n" + sharing("mps", 5));
  start_kubelet();
  start_mps();
  Program& node = start_node({"--listen", "127.0.0.1:0"});
  ASSERT_TRUE(until_healthy(5));
  ASSERT_TRUE(until_says(node, "http.listening"));
  const auto address = pages_of(node);
  EXPECT_THAT(http_get(address, "/metrics"), AllOf(HasSubstr(uuid(0)), Not(HasSubstr(uuid(1)))));
  const auto status = until_node([](const Json& document) { return !document["leftOut"].empty(); });
  EXPECT_THAT(status["leftOut"].dump(), HasSubstr("devices.exclude has"));
  EXPECT_EQ(status["labels"]["nvidia.com/gpu.count"], "1");
  EXPECT_EQ(until_mps([](const Json&) { return true; })["pools"].size(), 1u);
  write("config.yaml", sharing("mps", 5));
  ASSERT_TRUE(until_healthy(10));
  EXPECT_THAT(http_get(address, "/metrics"), HasSubstr(uuid(1)));
}

TEST_F(NodeStatus, IsATableForPeopleAndADocumentForPrograms) {
  start_all(2, 4);
  const auto grant = admitted(kubelet(), "trainer", 2);
  Program& tenant = start_cuda(grant, {"--hold", "--allocate", "10GiB"});
  ASSERT_EQ(attached(tenant)["event"], "attached");
  const auto pid = tenant.pid();
  const int gpu = grant.envs.at("NVIDIA_VISIBLE_DEVICES") == uuid(0) ? 0 : 1;

  const Strings ask{tranche(), "status", "--socket", node_socket()};
  const auto begin = os::mono_now();
  ASSERT_TRUE(until([&] { return os::mono_now() - begin > std::chrono::seconds(1); }, "earlier figures to be old"));
  ASSERT_EQ(run(ask), 0);  // reads the driver, and the watchers get that as well
  until_node([&](const Json& status) {
    const auto processes = device_of(status, gpu).value("processes", Json::array());
    return !status["grants"].empty() &&
           std::ranges::any_of(processes, [&](const Json& process) { return process["pid"] == pid; });
  });

  Strings ask_json = ask;
  ask_json.push_back("--json");
  Program& json = start(ask_json);
  ASSERT_EQ(finish(json), 0) << json.err();
  const auto document = Json::parse(json.out(), nullptr, false);
  ASSERT_TRUE(document.is_object()) << json.out();
  EXPECT_EQ(document["grants"][0]["pod"], "trainer");
  EXPECT_EQ(document["grants"][0]["slots"], Json(grant.slots.at(kGpu)));

  Program& table = start(ask);
  ASSERT_EQ(finish(table), 0) << table.err();
  EXPECT_THAT(table.out(), AllOf(HasSubstr("GPU 0"), HasSubstr("GPU 1"), HasSubstr("2/4 slots"), HasSubstr("trainer"),
                                 HasSubstr("MPS serving")));
}

TEST_F(NodeStatus, WithoutAnAgentSaysWhichSocketDidNotAnswer) {
  Program& status = start({tranche(), "status", "--socket", node_socket()});
  EXPECT_EQ(finish(status), 1);
  EXPECT_EQ(status.out(), "");
  EXPECT_THAT(status.err(), HasSubstr(node_socket()));
}

std::string demo_folder(const std::string& text) {
  const auto at = text.find("/tmp/tranche-demo.");
  return at == std::string::npos ? std::string() : text.substr(at, std::string("/tmp/tranche-demo.XXXXXX").size());
}

TEST_F(Demo, OnceShowsEveryGpuAndWhoWaitsAndLeavesNothing) {
  Program& demo = start({tranche(), "demo", "--once"});
  until([&] { return !demo.running(); }, "the demo's end");
  EXPECT_EQ(demo.code(), 0) << demo.err();
  for (const char* part : {"GPU 0", "GPU 1", "GPU 2", "GPU 3", "Waiting"}) EXPECT_THAT(demo.out(), HasSubstr(part));
  const auto folder = demo_folder(demo.out());
  ASSERT_NE(folder, "") << demo.out();
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_THAT(processes_marked(folder), IsEmpty());
}

TEST_F(Demo, OnceAsJsonIsOneDocumentOfStatusAndKubelet) {
  Program& demo = start({tranche(), "demo", "--once", "--json", "--gpus", "2", "--slots", "4"});
  EXPECT_EQ(finish(demo), 0) << demo.err();
  const auto document = Json::parse(demo.out(), nullptr, false);
  ASSERT_TRUE(document.is_object()) << demo.out();
  EXPECT_EQ(document["status"]["devices"].size(), 2u);
  EXPECT_FALSE(document["kubelet"]["pods"].empty());
}

TEST_F(Demo, InterruptedInTheMiddleLeavesNothing) {
  Program& demo = start({tranche(), "demo", "--json", "--gpus", "1", "--slots", "2"});
  until([&] { return demo_folder(demo.out()) != "" || !demo.running(); }, "the demo's first picture");
  const auto folder = demo_folder(demo.out());
  ASSERT_TRUE(fs::exists(folder + "/node")) << demo.out() << demo.err();
  stop(demo, SIGTERM, 0);
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_THAT(processes_marked(folder), IsEmpty());
}

TEST_F(Demo, OfAnUnusableConfigurationShowsItsProblemsAndLeavesNothing) {
  write("bad.yaml", "version: v1\nsharing:\n  mps:\n    resources: [{name: nvidia.com/gpu, replicas: 0}]\n");
  Program& demo = start({tranche(), "demo", "--once", "--config-file", in("bad.yaml")});
  EXPECT_EQ(finish(demo), 1);
  EXPECT_THAT(demo.err(), HasSubstr("config.yaml:4:"));
  const auto folder = demo_folder(demo.err());
  ASSERT_NE(folder, "");
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_THAT(processes_marked(folder), IsEmpty());
}

}  // namespace
}  // namespace tranche::e2e
