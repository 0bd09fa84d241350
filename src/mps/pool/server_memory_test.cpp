// The shared memory of a server, with the stand-in daemon and server as real processes.
#include "mps/pool/pool_dirs.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "mps/pool/pool_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::HasSubstr;

class ServerMemoryTest : public PoolTest {
 protected:
  PoolSettings settings() override {
    auto s = PoolTest::settings();
    if (in_dev_shm_) s.binary.env["TRANCHE_SIM_SHARED_MEMORY"] = "/dev/shm";
    return s;
  }
  // The pool's servers, once its first client is connected.
  pid_t server() {
    serve();
    (void)start_client({"--hold"});
    EXPECT_TRUE(until([&] {
      const auto& all = pool_->supervisor().servers;
      return all.size() == 1 && all[0].status == "ACTIVE";
    }));
    return pool_->supervisor().servers.at(0).pid;
  }
  bool in_dev_shm_ = false;
};

// Promise: mps/memory: A driver with anonymous shared memory needs no mount.
TEST_F(ServerMemoryTest, OfARecentDriverIsAnonymousAndNobodyNeedsAnything) {
  ServerMemory memory("/dev/shm");
  EXPECT_FALSE(memory.look(0));
  EXPECT_EQ(memory.where(), SharedMemory::kUnknown);
  const pid_t pid = server();
  EXPECT_TRUE(memory.look(pid));
  EXPECT_EQ(memory.where(), SharedMemory::kAnonymous);
  EXPECT_FALSE(memory.is_to_be_given());
  EXPECT_EQ(memory.problem(), "");
  EXPECT_FALSE(memory.look(pid)) << "no change";
}

// Promise: mps/memory: Where the server uses `/dev/shm` containers get the same folder.
TEST_F(ServerMemoryTest, InDevShmIsGivenWhereItIsTheServers) {
  in_dev_shm_ = true;
  const pid_t pid = server();
  ServerMemory memory("/dev/shm");
  EXPECT_TRUE(memory.look(pid));
  EXPECT_TRUE(memory.is_to_be_given());
  EXPECT_EQ(memory.problem(), "");
}

TEST_F(ServerMemoryTest, InADevShmThatContainersCannotBeGivenIsAProblemThatSaysWhatToDo) {
  in_dev_shm_ = true;
  ServerMemory memory(scratch_ / "shm");
  EXPECT_TRUE(memory.look(server()));
  EXPECT_EQ(memory.where(), SharedMemory::kNamed);
  EXPECT_FALSE(memory.is_to_be_given());
  EXPECT_THAT(memory.problem(), HasSubstr("mount " + (scratch_ / "shm") + " at /dev/shm of tranche mps"));
}

// The server's /dev/shm is this directory, as if `tranche mps` ran in a container with it mounted there.
TEST_F(ServerMemoryTest, WithoutASizeOfItsOwnIsGivenAndSaidToBeUnbounded) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount";
  in_dev_shm_ = true;
  const std::string folder = scratch_ / "shm";
  std::filesystem::create_directory(folder);
  const pid_t server = ::fork();
  if (server == 0) {
    ::unshare(CLONE_NEWNS);
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    ::mount(folder.c_str(), "/dev/shm", nullptr, MS_BIND, nullptr);
    const int fd = ::open("/dev/shm/cuda.shm.0", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const bool mapped = ::ftruncate(fd, 4096) == 0 && ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
    if (mapped) ::pause();
    ::_exit(1);
  }
  ServerMemory memory(folder);
  ASSERT_TRUE(until([&] {
    return os::read_file("/proc/" + std::to_string(server) + "/maps").value_or("").find("cuda.shm") !=
           std::string::npos;
  }));
  EXPECT_TRUE(memory.look(server));
  EXPECT_TRUE(memory.is_to_be_given());
  EXPECT_THAT(memory.problem(), HasSubstr("one container can fill the node's"));
  EXPECT_THAT(memory.problem(), HasSubstr("tmpfs " + folder));
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
}

TEST_F(ServerMemoryTest, OfAProcessThatHasEndedIsNotKnown) {
  ServerMemory memory("/dev/shm");
  EXPECT_FALSE(memory.look(4194303));
  EXPECT_EQ(memory.where(), SharedMemory::kUnknown);
}

}  // namespace
}  // namespace tranche::mps
