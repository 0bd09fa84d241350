// A daemon's home on the host, tested with ordinary programs. What this machine does not permit is skipped, with the
// reason.
#include "mps/daemon/daemon_home.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.h"
#include "os/files/scratch_fixture.h"
#include "run_until.h"
#include "sanitized.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Promise: mps/daemon-home: The cgroup is one folder under version 2 and one in each hierarchy under version 1.
TEST(DaemonCgroups, AreOneFolderUnderVersionTwo) {
  EXPECT_THAT(daemon_cgroups("0::/kubepods.slice/pod1\n", "/sys/fs/cgroup", "gpu-1"),
              ElementsAre("/sys/fs/cgroup/tranche/gpu-1"));
}

// Promise: mps/daemon-home: The cgroup is one folder under version 2 and one in each hierarchy under version 1.
TEST(DaemonCgroups, AreOneInEveryHierarchyUnderVersionOne) {
  EXPECT_THAT(daemon_cgroups("12:cpu,cpuacct:/a\n3:name=systemd:/b\n4:memory:/c\n0::/\n", "/c", "gpu-1"),
              ElementsAre("/c/cpu,cpuacct/tranche/gpu-1", "/c/systemd/tranche/gpu-1", "/c/memory/tranche/gpu-1",
                          "/c/unified/tranche/gpu-1"));
}

TEST(DaemonCgroups, PassOverWhatWouldLeadElsewhere) {
  EXPECT_THAT(daemon_cgroups("1:..:/\n2:name=..:/\n3:a/b:/\nx:y:/\n4:cpu\n\n", "/c", "p"), IsEmpty());
}

TEST(DaemonHome, NamesProgramAndEnvironmentAsTheHostDoes) {
  const DaemonHome pod{.driver_root = "/", .driver_root_here = "/driver-root"};
  EXPECT_EQ(program_at_home(pod, "/driver-root/usr/bin/x"), "/driver-root/usr/bin/x");
  DaemonHome home = pod;
  home.host = true;
  EXPECT_EQ(program_at_home(home, "/driver-root/usr/bin/x"), "/usr/bin/x");
  EXPECT_EQ(program_at_home(home, "/usr/bin/x"), "/usr/bin/x") << "brought by the container toolkit: the same path";
  EXPECT_THAT(environment_at_home(home, {{"LD_LIBRARY_PATH", "/ours"}, {"A", "b"}}),
              ElementsAre(::testing::Pair("A", "b"), ::testing::Pair("PATH", HasSubstr("/usr/bin"))));
  home.driver_root = "/run/nvidia/driver";
  EXPECT_EQ(program_at_home(home, "/driver-root/usr/bin/x"), "/run/nvidia/driver/usr/bin/x");
  home.mps_root = "/run/nvidia/mps";
  EXPECT_EQ(environment_at_home(home, {}).at("LD_LIBRARY_PATH"), "/run/nvidia/mps/driver-libraries-of-host");
  EXPECT_EQ(environment_at_home(pod, {{"LD_LIBRARY_PATH", "/ours"}}).at("LD_LIBRARY_PATH"), "/ours");
}

class DaemonHomeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *os::Loop::open();
    out_ = os::Fd(::memfd_create("out", MFD_CLOEXEC));
    in_ = os::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  Result<std::unique_ptr<os::Process>> start(const DaemonHome& home, std::vector<std::string> argv) {
    return launch_at_home(*loop_, home, "gpu-1",
                          {.argv = std::move(argv), .env = {}, .input = in_.get(), .output = out_.get()},
                          [this](os::ExitNote note) {
                            note_ = note;
                            loop_->stop();
                          });
  }
  void wait() { os::run_until_stopped(*loop_); }
  std::string output() const {
    char text[4096] = {};
    const auto length = ::pread(out_.get(), text, sizeof text, 0);
    return std::string(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  }

  std::unique_ptr<os::Loop> loop_;
  const int host_pid_ = ::getpid();  // only privileged processes can read process 1's namespaces
  os::Fd in_, out_;
  os::ExitNote note_{false, -1};
};

constexpr const char* kPlain = "none";

// Promise: mps/daemon-home: A daemon on the host has its own session and only its own descriptors.
TEST_F(DaemonHomeTest, OnTheHostHasASessionOfItsOwnAndOnlyItsDescriptors) {
  const DaemonHome home{.host = true, .host_pid = host_pid_, .cgroup = kPlain};
  const auto process = start(home, {"/bin/sh", "-c", "cat /proc/$$/stat; ls /proc/$$/fd"});
  ASSERT_TRUE(process) << to_string(process.error());
  const pid_t pid = (*process)->ref().pid;
  wait();
  EXPECT_EQ(note_.code, 0);
  const std::string text = output();
  const std::string first = text.substr(0, text.find('\n'));  // the result refers to it
  const auto words = split(first, ' ');
  ASSERT_GT(words.size(), 6u) << text;
  EXPECT_EQ(words[5], std::to_string(pid)) << "session";
  EXPECT_TRUE(text.ends_with("\n0\n1\n2\n")) << "no descriptor of ours: " << text;
}

// Promise: mps/daemon-home: A failed step is named and leaves no process.
TEST_F(DaemonHomeTest, SaysWhichProgramCannotBeExecuted) {
  const DaemonHome home{.host = true, .host_pid = host_pid_, .cgroup = kPlain};
  const auto process = start(home, {"/no/such/program"});
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().kind, Kind::kNotFound);
  EXPECT_THAT(to_string(process.error()), HasSubstr("cannot execute"));
  EXPECT_THAT(to_string(process.error()), HasSubstr("/no/such/program"));
}

// Promise: mps/daemon-home: A failed step is named and leaves no process.
TEST_F(DaemonHomeTest, SaysWhichCgroupCannotBeEnteredAndLeavesNoProcess) {
  const os::Scratch scratch;
  const DaemonHome home{
      .host = true, .host_pid = host_pid_, .cgroup = scratch.path()};  // an ordinary directory, without cgroup.procs
  const pid_t child = ::fork();                                        // has no children of other tests
  if (child == 0) {
    const auto process = start(home, {"/bin/true"});
    const std::string error = process ? "" : to_string(process.error());
    (void)!::write(out_.get(), error.data(), error.size());
    ::_exit(::waitpid(-1, nullptr, WNOHANG) == -1 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "not reaped";
  EXPECT_THAT(output(), HasSubstr("cannot put the daemon into a cgroup of its own"));
  EXPECT_THAT(output(), HasSubstr(scratch / "gpu-1"));
}

// A real cgroup for the duration of the test, wherever this machine permits one.
class ScratchCgroup {
 public:
  ScratchCgroup() {
    for (const char* root : {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"}) {
      const std::string path = std::string(root) + "/tranche-test-" + std::to_string(::getpid());
      if (::access((std::string(root) + "/cgroup.procs").c_str(), W_OK) != 0 || ::mkdir(path.c_str(), 0755) != 0)
        continue;
      path_ = path;
      break;
    }
  }
  ~ScratchCgroup() {
    ::rmdir((path_ + "/gpu-1").c_str());
    ::rmdir(path_.c_str());
  }
  ScratchCgroup(const ScratchCgroup&) = delete;
  ScratchCgroup& operator=(const ScratchCgroup&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Promise: mps/daemon-home: A daemon on the host has its own cgroup.
TEST_F(DaemonHomeTest, OnTheHostIsInACgroupOfItsOwn) {
  const ScratchCgroup cgroup;
  if (cgroup.path().empty()) GTEST_SKIP() << "no cgroup can be made here (needs root and a writable /sys/fs/cgroup)";
  const DaemonHome home{.host = true, .host_pid = host_pid_, .cgroup = cgroup.path()};
  const auto process = start(home, {"/bin/cat", "/proc/self/cgroup"});
  ASSERT_TRUE(process) << to_string(process.error());
  wait();
  EXPECT_THAT(output(), HasSubstr(cgroup.path().substr(cgroup.path().rfind('/')) + "/gpu-1\n"));
}

// In a child with a mount namespace of its own, like a container: the daemon must be in the mount namespace of this
// process, which plays the host's first.
// Promise: mps/daemon-home: A daemon on the host is in the host's mount namespace.
TEST_F(DaemonHomeTest, OnTheHostIsInTheHostsMountNamespace) {
  if (TRANCHE_THREAD_SANITIZED != 0)
    GTEST_SKIP()
        << "ThreadSanitizer starts a thread in the child, and a process with threads enters no mount namespace";
  char one[64] = {};
  ASSERT_GT(::readlink("/proc/self/ns/mnt", one, sizeof one - 1), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0) ::_exit(77);
    const DaemonHome home{.host = true, .host_pid = host_pid_, .cgroup = kPlain};
    const auto process = start(home, {"/usr/bin/readlink", "/proc/self/ns/mnt"});
    if (!process) {
      (void)!::write(out_.get(), to_string(process.error()).data(), to_string(process.error()).size());
      ::_exit(1);
    }
    wait();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no right to a mount namespace (needs root)";
  EXPECT_EQ(output(), std::string(one) + "\n");
}

TEST_F(DaemonHomeTest, InThePodStaysInOurSession) {
  const auto process = start({}, {"/bin/sh", "-c", "cut -d' ' -f6 /proc/$$/stat"});
  ASSERT_TRUE(process) << to_string(process.error());
  wait();
  EXPECT_EQ(output(), std::to_string(::getsid(0)) + "\n");
}

}  // namespace
}  // namespace tranche::mps
