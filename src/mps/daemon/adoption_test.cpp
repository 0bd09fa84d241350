// Processes that look like a daemon, in a container, with a memory that blocks its readers.
#include "mps/daemon/adoption.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "blocked_process.h"
#include "mps/pool/pool_dirs.h"
#include "os/files/scratch_fixture.h"
#include "os/socket/socket_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::IsEmpty;

// Promise: mps: The search for daemons reads nothing that a tenant can block.
TEST(Adoption, ReadsNothingThatATenantCanBlock) {
  const os::Scratch scratch;
  const test::BlockedProcess tenant(scratch / "nvidia-cuda-mps-control");
  if (!tenant.ready()) GTEST_SKIP() << "needs root and /dev/fuse";
  const grants::Paths paths{scratch.path()};
  ASSERT_TRUE(make_pool_dirs(paths, "gpu-1"));
  const auto pools = tenant.within_time([&] { return find_left_pools(scratch.path()); });
  ASSERT_TRUE(pools.has_value()) << "the search waits for the tenant";
  EXPECT_THAT(pools->value(), IsEmpty());
  const auto daemon = tenant.within_time([&] { return find_adoptable(paths.pipe("gpu-1"), {}); });
  ASSERT_TRUE(daemon.has_value()) << "the search waits for the tenant";
  EXPECT_EQ(daemon->value(), std::nullopt);
}

// The socket stays open in a process that outlives its daemon; the pid in it may belong to a tenant by then.
// Promise: mps: A process that has the number of a dead daemon is not adopted.
TEST(Adoption, AProcessWithTheNumberOfADeadDaemonIsNoDaemon) {
  const os::Scratch scratch;
  const grants::Paths paths{scratch.path()};
  ASSERT_TRUE(make_pool_dirs(paths, "gpu-1"));
  const std::string program = scratch / "nvidia-cuda-mps-control";
  std::filesystem::copy_file("/bin/sleep", program);
  ExpectedDaemon expected;
  expected.program = program;
  expected.environment = {{"CUDA_MPS_PIPE_DIRECTORY", paths.pipe("gpu-1")}};
  const os::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  int none = -1;
  socklen_t size = sizeof none;
  constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD
  if (::getsockopt(socket.get(), SOL_SOCKET, kPeerPidfd, &none, &size) != 0 && errno == ENOPROTOOPT)
    GTEST_SKIP() << "needs Linux 6.5";
  os::bind_at(socket.get(), paths.pipe("gpu-1") + "/control");
  const pid_t daemon = ::fork();
  if (daemon == 0) ::_exit(::listen(socket.get(), 5));
  ::waitpid(daemon, nullptr, 0);

  int started[2];
  ASSERT_EQ(::pipe2(started, O_CLOEXEC), 0);
  clone_args how{};
  how.exit_signal = SIGCHLD;
  how.set_tid = reinterpret_cast<std::uint64_t>(&daemon);
  how.set_tid_size = 1;
  const long tenant = ::syscall(SYS_clone3, &how, sizeof how);
  if (tenant == 0) {
    const std::string pipe = "CUDA_MPS_PIPE_DIRECTORY=" + paths.pipe("gpu-1");
    const char* const environment[] = {pipe.c_str(), nullptr};
    if (::unshare(CLONE_NEWNS) == 0)
      ::execle(program.c_str(), program.c_str(), "600", nullptr, environment);  // closes `started`
    ::_exit(1);
  }
  if (tenant != daemon) GTEST_SKIP() << "needs the right to choose a pid";
  ::close(started[1]);
  char byte = 0;
  EXPECT_EQ(::read(started[0], &byte, 1), 0);
  ::close(started[0]);
  const auto found = find_adoptable(paths.pipe("gpu-1"), expected);
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_FALSE(found->has_value()) << "a tenant's process was taken for the daemon";
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
}

}  // namespace
}  // namespace tranche::mps
