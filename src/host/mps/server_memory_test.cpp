// The shared memory of a server, with the stand-in daemon and server as real processes.
#include "host/mps/server_memory.h"

#include "host/mps/pool_fixture.h"

namespace tranche::host {
namespace {

using ::testing::HasSubstr;

class ServerMemoryTest : public PoolTest {
 protected:
  PoolSettings settings() override {
    auto s = PoolTest::settings();
    if (in_dev_shm_) s.binary.env["TRANCHE_SIM_SHARED_MEMORY"] = "/dev/shm";
    return s;
  }
  // Of the pool, once its first client is in.
  std::vector<pid_t> servers() {
    serve();
    (void)start_client({"--hold"});
    EXPECT_TRUE(until([&] {
      const auto& all = pool_->supervisor().servers;
      return all.size() == 1 && all[0].status == "ACTIVE";
    }));
    std::vector<pid_t> pids;
    for (const auto& server : pool_->supervisor().servers) pids.push_back(server.pid);
    return pids;
  }
  bool in_dev_shm_ = false;
};

TEST_F(ServerMemoryTest, OfARecentDriverIsAnonymousAndNobodyNeedsAnything) {
  ServerMemory memory("/dev/shm");
  EXPECT_FALSE(memory.look({}));
  EXPECT_EQ(memory.where(), mps::SharedMemory::kUnknown);
  const auto pids = servers();
  EXPECT_TRUE(memory.look(pids));
  EXPECT_EQ(memory.where(), mps::SharedMemory::kAnonymous);
  EXPECT_FALSE(memory.is_to_be_given());
  EXPECT_EQ(memory.problem(), "");
  EXPECT_FALSE(memory.look(pids)) << "no news";
}

TEST_F(ServerMemoryTest, InDevShmIsGivenWhereItIsTheServers) {
  in_dev_shm_ = true;
  const auto pids = servers();
  ServerMemory memory("/dev/shm");
  EXPECT_TRUE(memory.look(pids));
  EXPECT_TRUE(memory.is_to_be_given());
  EXPECT_EQ(memory.problem(), "");
}

TEST_F(ServerMemoryTest, InADevShmThatContainersCannotBeGivenIsAProblemThatSaysWhatToDo) {
  in_dev_shm_ = true;
  ServerMemory memory(scratch_ / "shm");
  EXPECT_TRUE(memory.look(servers()));
  EXPECT_EQ(memory.where(), mps::SharedMemory::kNamed);
  EXPECT_FALSE(memory.is_to_be_given());
  EXPECT_THAT(memory.problem(), HasSubstr("mount " + (scratch_ / "shm") + " at /dev/shm of tranche mps"));
}

TEST_F(ServerMemoryTest, OfAProcessThatHasEndedIsNotKnown) {
  ServerMemory memory("/dev/shm");
  EXPECT_FALSE(memory.look({4194303}));
  EXPECT_EQ(memory.where(), mps::SharedMemory::kUnknown);
}

}  // namespace
}  // namespace tranche::host
