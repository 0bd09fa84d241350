#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints.h"

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kPod = "7b0d4e5c-1f2a-4b3c-8d9e-0a1b2c3d4e5f";
constexpr const char* kOtherPod = "7b0d4e5c-1f2a-4b3c-8d9e-0a1b2c3d4e60";

// A control group as kubelet makes it for a container of a pod; "" where this process may make none.
class Group {
 public:
  Group(const std::string& pod, char container) {
    for (const std::string root : {"/sys/fs/cgroup", "/sys/fs/cgroup/pids"}) {
      std::string below = root;
      for (const std::string& part :
           std::vector<std::string>{"kubepods", "besteffort", "pod" + pod, std::string(64, container)}) {
        below += "/" + part;
        if (::mkdir(below.c_str(), 0755) == 0) made_.push_back(below);
      }
      if (::access((below + "/cgroup.procs").c_str(), W_OK) == 0) path_ = below;
      if (!path_.empty()) break;
    }
  }
  ~Group() {
    for (auto it = made_.rbegin(); it != made_.rend(); ++it) ::rmdir(it->c_str());
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::vector<std::string> made_;
  std::string path_;
};

// A container of one process, which has a pipe: a mount namespace of its own.
class Holder {
 public:
  explicit Holder(const Group& group) : Holder(true, group.path()) {}
  explicit Holder(bool contained = true, const std::string& group = {}) {
    int ends[2], ready[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::pipe(ready), 0);
    struct stat status{};
    EXPECT_EQ(::fstat(ends[1], &status), 0);
    channel_ = "pipe:[" + std::to_string(status.st_ino) + "]";
    pid_ = ::fork();
    if (pid_ == 0) {
      if (contained && ::unshare(CLONE_NEWNS) != 0) ::_exit(1);
      if (!group.empty() && !joins(group)) ::_exit(1);
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte = 0;
    ::close(ready[1]);
    ready_ = ::read(ready[0], &byte, 1) == 1;
    for (const int fd : {ends[0], ends[1], ready[0]}) ::close(fd);
  }
  ~Holder() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  bool ready() const { return ready_; }
  int pid() const { return pid_; }
  os::ProcessRef ref() const { return *os::process_ref(pid_); }
  std::string container() const { return container_of(pid_); }
  const std::string& channel() const { return channel_; }

 private:
  static bool joins(const std::string& group) {
    const int fd = ::open((group + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    return fd >= 0 && ::write(fd, "0", 1) == 1 && ::close(fd) == 0;
  }
  int pid_ = -1;
  bool ready_ = false;
  std::string channel_;
};

constexpr std::uint64_t kNow = ~0ULL;  // started after everything that runs

KnownClient remnant(int pid, std::uint64_t started, const std::vector<Channel>& channels, const std::string& container,
                    unsigned tries = 0) {
  return {
      .pid = pid, .started = started, .tries = tries, .container = container, .connections = {{.channels = channels}}};
}

class HeirsOfContainers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root for mount namespaces";
  }
};

// Promise: mps/endpoints: The processes that keep the channels of a client that has exited are found in its container.
TEST_F(HeirsOfContainers, AreItsProcessesThatKeepTheChannels) {
  const Holder one, other;
  ASSERT_TRUE(one.ready() && other.ready());
  const FoundHeirs found = find_heirs({remnant(1000001, kNow, {"pipe:[1]", one.channel()}, one.container()),
                                       remnant(1000002, kNow, {other.channel()}, other.container())},
                                      {});
  EXPECT_THAT(found.of.at(1000001), ElementsAre(one.ref()));
  EXPECT_THAT(found.of.at(1000002), ElementsAre(other.ref()));
}

// Promise: mps/endpoints: No process of another pod or of the node is ended for what remains of a client.
TEST_F(HeirsOfContainers, AreNeverProcessesOfAnotherContainerOrOfTheNode) {
  const Holder mine, neighbour, node(false);
  ASSERT_TRUE(mine.ready() && neighbour.ready() && node.ready());
  for (const auto* other : {&neighbour, &node}) {
    const FoundHeirs found = find_heirs({remnant(1000001, kNow, {other->channel()}, mine.container())}, {});
    EXPECT_THAT(found.of.at(1000001), ElementsAre(mine.ref())) << "its own container is ended";
  }
  EXPECT_THAT(find_heirs({remnant(1000001, kNow, {neighbour.channel()}, "")}, {}).of.at(1000001), IsEmpty());
}

TEST_F(HeirsOfContainers, AreTheWholeContainerAtTheSecondAttempt) {
  const Holder mine;
  ASSERT_TRUE(mine.ready());
  const FoundHeirs found = find_heirs({remnant(1000001, kNow, {}, mine.container(), 1)}, {});
  EXPECT_THAT(found.of.at(1000001), ElementsAre(mine.ref()));
  ASSERT_EQ(found.first.size(), 1u);
  EXPECT_EQ(found.first[0].process, mine.ref());
  EXPECT_EQ(found.first[0].container, mine.container());
}

// Three containers: two of one pod, and one of another pod.
TEST_F(HeirsOfContainers, AContainerIsClosedUntilItsFirstProcessHasExitedAlsoIfThatIsNotReaped) {
  const Holder container;
  const Holder first(false);
  ASSERT_TRUE(container.ready() && first.ready());
  EndingContainers ending;
  ending.note({{container.container(), first.ref()}});
  EXPECT_EQ(ending.close_with(first.ref()), container.container());
  EXPECT_NE(ending.refuses(container.pid()), "");
  ::kill(first.pid(), SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(first.pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ending.refuses(container.pid()), "");
}

class HeirsOfPods : public HeirsOfContainers {
 protected:
  void SetUp() override {
    HeirsOfContainers::SetUp();
    if (main_group_.path().empty()) GTEST_SKIP() << "no control group can be made here";
    main_ = std::make_unique<Holder>(main_group_);
    beside_ = std::make_unique<Holder>(beside_group_);
    other_ = std::make_unique<Holder>(other_group_);
    ASSERT_TRUE(main_->ready() && beside_->ready() && other_->ready());
    ASSERT_EQ(pod_in_name(main_->container()), kPod);
    ASSERT_EQ(pod_in_name(other_->container()), kOtherPod);
    ASSERT_NE(main_->container(), beside_->container());
  }
  std::vector<os::ProcessRef> of(const std::vector<Channel>& channels, unsigned tries) const {
    return find_heirs({remnant(1000001, kNow, channels, main_->container(), tries)}, {}).of.at(1000001);
  }
  Group main_group_{kPod, 'a'}, beside_group_{kPod, 'b'}, other_group_{kOtherPod, 'c'};
  std::unique_ptr<Holder> main_, beside_, other_;
};

// Promise: mps/endpoints: Processes in any container of a client's pod that keep its channels are found.
TEST_F(HeirsOfPods, AreProcessesOfAnyContainerOfThePodThatKeepTheChannels) {
  EXPECT_THAT(of({beside_->channel()}, 0), ElementsAre(beside_->ref()));
  EXPECT_THAT(of({other_->channel(), beside_->channel()}, 0), ElementsAre(beside_->ref())) << "not of another pod";
}

// Promise: mps/endpoints: From the third attempt on, all containers of a client's pod are ended for what remains of it.
TEST_F(HeirsOfPods, AreAllContainersOfThePodFromTheThirdAttemptOn) {
  EXPECT_THAT(of({other_->channel()}, 0), ElementsAre(main_->ref()));
  EXPECT_THAT(of({beside_->channel()}, 1), ElementsAre(main_->ref()));
  for (const unsigned tries : {2U, 3U})
    EXPECT_THAT(of({other_->channel()}, tries), UnorderedElementsAre(main_->ref(), beside_->ref()));
}

TEST_F(HeirsOfPods, AreFoundAlsoAfterTheClientsContainerWasReplaced) {
  const std::string container = "pod " + std::string(kPod) + " " + std::string(64, 'd');
  const auto found = find_heirs({remnant(1000001, 1, {}, container, 2)}, {});
  EXPECT_THAT(found.of.at(1000001), UnorderedElementsAre(main_->ref(), beside_->ref()));
  ASSERT_EQ(found.first.size(), 2u);
  EXPECT_THAT(find_heirs({remnant(1000001, 1, {}, container, 1)}, {}).of.at(1000001), IsEmpty());
}

TEST_F(HeirsOfContainers, AreNotTheWholeOfALaterContainerOfTheSameName) {
  const Holder later;
  ASSERT_TRUE(later.ready());
  const std::uint64_t earlier = later.ref().start_ticks - 1;
  for (const unsigned tries : {0U, 1U, 2U})
    EXPECT_THAT(find_heirs({remnant(1000001, earlier, {}, later.container(), tries)}, {}).of.at(1000001), IsEmpty());
}

TEST_F(HeirsOfContainers, AreNotThePoolsOwnProcesses) {
  const Holder server;
  ASSERT_TRUE(server.ready());
  EXPECT_THAT(
      find_heirs({remnant(1000001, kNow, {server.channel()}, server.container())}, {server.pid()}).of.at(1000001),
      IsEmpty());
}

}  // namespace
}  // namespace tranche::mps
