// What a tenant with root can do at its endpoint: come in, and nothing else (docs/internals/evidence/mps-handshake.md,
// "What was tried").
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

// std::filesystem::equivalent refuses to compare sockets.
bool is_same_file(const std::string& a, const std::string& b) {
  struct stat one{}, other{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}
using ::testing::ElementsAre;
namespace fs = std::filesystem;

class NodeEndpoint : public NodeBed {
 protected:
  // The ways in which a container may hold its endpoint: as it is, in a user namespace of its own, mounted read-only,
  // and mounted so that it may write.
  static std::vector<std::pair<std::string, std::string>> ways(const std::string& endpoint) {
    const std::string bind = "mount --bind '" + endpoint + "' '" + endpoint + "' && ";
    return {{"as it is", "exec \"$@\""},
            {"in a user namespace", "exec unshare --user --map-root-user \"$@\""},
            {"read-only", "exec unshare --mount sh -c \"" + bind + "mount -o remount,ro,bind '" + endpoint +
                              "' && exec \\\"\\$@\\\"\" sh \"$@\""},
            {"read-write", "exec unshare --mount sh -c \"" + bind + "exec \\\"\\$@\\\"\" sh \"$@\""}};
  }
  Program& tenant(const std::string& way, const std::string& pipe, const std::string& command) {
    Program& program = start({"/bin/sh", "-c", way, "sh", build() + "/standins/nvidia-cuda-mps-control", command},
                             {{"CUDA_MPS_PIPE_DIRECTORY", pipe}});
    EXPECT_NE(finish(program), -1) << command;
    return program;
  }
};

TEST_F(NodeEndpoint, RootInAContainerCommandsNothingThroughItInWhateverWayItIsMounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the daemon accepts credentials only from root";
  start_all(1, 4);
  const auto hostile = admitted(kubelet(), "hostile", 1);
  const auto victim = admitted(kubelet(), "victim", 1);
  Program& neighbour = start_cuda(victim, {"--hold", "--kernel-ms", "5"});
  ASSERT_EQ(attached(neighbour)["mps"], true);
  const auto before = until_mps([&](const Json& status) {
    const auto& servers = pool_of(status, 0)["servers"];
    return servers.size() == 1 && servers[0]["clients"] == Json::array({neighbour.pid()});
  });
  const auto server = std::to_string(pool_of(before, 0)["servers"][0]["pid"].get<int>());
  const std::vector<std::string> commands{"terminate_client " + server + " " + std::to_string(neighbour.pid()),
                                          "shutdown_server " + server + " -f",
                                          "set_active_thread_percentage " + server + " 100",
                                          "set_device_pinned_mem_limit " + server + " 0 100G",
                                          "set_default_active_thread_percentage 100",
                                          "set_default_device_pinned_mem_limit 0 100G",
                                          "start_server -uid 0",
                                          "get_server_list",
                                          "get_client_list " + server,
                                          "ps",
                                          "quit -t 0"};
  const std::string endpoint = endpoint_of(hostile);
  std::uint64_t attempts = 0;
  for (const auto& [name, way] : ways(endpoint)) {
    for (const auto& command : commands) {
      EXPECT_EQ(tenant(way, endpoint, command).out(), "") << command << ", " << name;
      ++attempts;
    }
  }
  const auto after = until_mps([&](const Json& status) {
    std::uint64_t counted = 0;
    const auto& endpoints = pool_of(status, 0)["endpoints"];
    for (const auto& each : endpoints) counted += each["attempts"].get<std::uint64_t>();
    return counted == attempts;
  });
  EXPECT_EQ(pool_of(after, 0)["daemonPid"], pool_of(before, 0)["daemonPid"]);
  for (const char* fact : {"pid", "status", "clients"})
    EXPECT_EQ(pool_of(after, 0)["servers"][0][fact], pool_of(before, 0)["servers"][0][fact]);
  EXPECT_EQ(pool_of(after, 0)["limits"], pool_of(before, 0)["limits"]);
  EXPECT_TRUE(neighbour.running()) << neighbour.out();
  EXPECT_THAT(neighbour.out(), ::testing::Not(HasSubstr("\"event\":\"error\"")));
  EXPECT_EQ(attached(start_cuda(hostile, {}))["mps"], true) << "it may come in as before";
}

TEST_F(NodeEndpoint, HoldsOneSocketOfOursAndNoOtherName) {
  start_all(1, 2);
  const auto endpoint = endpoint_of(admitted(kubelet(), "a", 1));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(endpoint)) {
    names.push_back(entry.path().filename());
    EXPECT_TRUE(entry.is_socket()) << entry.path();
    EXPECT_FALSE(is_same_file(entry.path(), endpoint + "/../../pipe/control"));
  }
  EXPECT_THAT(names, ElementsAre("control"));
}

TEST_F(NodeEndpoint, AskedForAsALinkIsOneAndTheStatusSaysWhatThatMeans) {
  make_node(1);
  write("config.yaml", sharing("mps", 2, "    endpoint: link\n"));
  start_kubelet();
  start_mps();
  start_node();
  ASSERT_TRUE(until_healthy(2));
  const auto grant = admitted(kubelet(), "a", 1);
  EXPECT_TRUE(is_same_file(endpoint_of(grant) + "/control", endpoint_of(grant) + "/../../pipe/control"));
  EXPECT_EQ(attached(start_cuda(grant, {}))["mps"], true);
  const auto status = until_mps([](const Json& s) { return pool_of(s, 0)["endpoint"] == "link"; });
  EXPECT_THAT(pool_of(status, 0)["endpointReason"].get<std::string>(), HasSubstr("can command this daemon"));
}

TEST_F(NodeEndpoint, IsRefusedInOneSentenceWhileTrancheMpsDoesNotAnswer) {
  start_all(1, 2);
  program("mps")->signal(SIGSTOP);
  auto admission = kubelet().admit(sim::one_container_pod("a", kGpu, 1));
  EXPECT_FALSE(admission.admitted);
  EXPECT_THAT(admission.message, HasSubstr("cannot open the grant's MPS endpoint"));
  program("mps")->signal(SIGCONT);
  ASSERT_TRUE(until_healthy(2));
  EXPECT_EQ(attached(start_cuda(admitted(kubelet(), "b", 1), {}))["mps"], true);
}

}  // namespace
}  // namespace tranche::e2e
