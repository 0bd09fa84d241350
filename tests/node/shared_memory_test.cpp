// A driver whose MPS server shares memory through files in /dev/shm, and one whose does not.
#include <algorithm>
#include <filesystem>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

const sim::ContainerGrant::Mount* mount_at(const sim::ContainerGrant& grant, const std::string& path) {
  const auto found = std::ranges::find(grant.mounts, path, &sim::ContainerGrant::Mount::container_path);
  return found == grant.mounts.end() ? nullptr : &*found;
}

// After a client has come, so that there is a server to look at.
class NodeSharedMemory : public NodeBed {
 protected:
  // What `tranche mps` says of it, once the node agent has heard the same.
  Json see_a_server() {
    Program& first = start_cuda(admitted(kubelet(), "first", 1), {"--hold"});
    EXPECT_EQ(attached(first)["event"], "attached");
    const auto status = until_mps([](const Json& mps) {
      const auto& pool = pool_of(mps, 0);
      return pool["clients"]["live"] == 1 && pool.contains("sharedMemory") &&
             pool["sharedMemory"]["where"] != "unknown";
    });
    until_node([](const Json& node) { return device_of(node, 0)["poolClients"].size() == 1; });
    return status;
  }
};

// Promise: mps/memory: A driver with anonymous shared memory needs no mount.
TEST_F(NodeSharedMemory, OfARecentDriverNoContainerIsGiven) {
  ASSERT_NO_FATAL_FAILURE(start_all(1, 4));
  const auto status = see_a_server();
  EXPECT_EQ(pool_of(status, 0)["sharedMemory"]["where"], "anonymous");
  EXPECT_EQ(mount_at(admitted(kubelet(), "a", 1), "/dev/shm"), nullptr);
}

// Promise: mps/memory: Where the server uses `/dev/shm` containers get the same folder.
TEST_F(NodeSharedMemory, InDevShmEveryContainerIsGiven) {
  environment_["TRANCHE_SIM_SHARED_MEMORY"] = "/dev/shm";
  std::filesystem::create_directory(in("mps"));
  std::filesystem::create_directory_symlink("/dev/shm", in("mps/shm"));
  ASSERT_NO_FATAL_FAILURE(start_all(1, 4));
  const auto status = see_a_server();
  EXPECT_EQ(pool_of(status, 0)["sharedMemory"], Json::parse(R"({"where": "/dev/shm", "mount": true})"));
  const auto grant = admitted(kubelet(), "a", 1);
  const auto* mount = mount_at(grant, "/dev/shm");
  ASSERT_NE(mount, nullptr);
  EXPECT_EQ(mount->host_path, in("mps/shm"));
  EXPECT_FALSE(mount->read_only);
}

// Promise: mps/memory: A `/dev/shm` that containers cannot get is a reported problem.
TEST_F(NodeSharedMemory, ThatContainersCannotBeGivenIsSaid) {
  environment_["TRANCHE_SIM_SHARED_MEMORY"] = "/dev/shm";
  ASSERT_NO_FATAL_FAILURE(start_all(1, 4));
  const auto status = see_a_server();
  EXPECT_EQ(pool_of(status, 0)["sharedMemory"]["mount"], false);
  EXPECT_THAT(pool_of(status, 0)["reason"].get<std::string>(), HasSubstr("mount " + in("mps/shm") + " at /dev/shm"));
  EXPECT_EQ(mount_at(admitted(kubelet(), "a", 1), "/dev/shm"), nullptr);
}

}  // namespace
}  // namespace tranche::e2e
