// The doors of a pool with the stand-in daemon behind them and tenants before them.
#include "agent/mps/doors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "run_until.h"
#include "standins/mps/handshake.h"
#include "standins/mps/mps_world.h"

namespace tranche::agent {
namespace doors_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const std::string kPool = "gpu-1";
const std::string kGrant = "0011223344556677";
const DoorName kDoor{kPool, kGrant};

ino_t inode_of(const std::string& path) {
  struct stat facts{};
  return ::lstat(path.c_str(), &facts) == 0 ? facts.st_ino : 0;
}

bool readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

int connect_stream(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? fd : -1;
}

class DoorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *host::Loop::open();
    fs::create_directories(paths_.pipe(kPool));
  }
  void start_daemon() {
    fs::create_directories(paths_.pipe(kPool));
    world_.start_daemon({"-M"}, {{"CUDA_MPS_PIPE_DIRECTORY", paths_.pipe(kPool)}});
  }
  void make(config::DoorPolicy policy = config::DoorPolicy::kGate) {
    doors_ = std::make_unique<Doors>(
        *loop_, DoorsSettings{.paths = paths_, .policy = policy},
        Doors::World{
            .terminate =
                [this](const std::string&, const host::EndRequest& ended, std::function<void(const Terminated&)> done) {
                  asked_.push_back(ended.clients);
                  done_ = std::move(done);
                },
            .on_client = [this](const std::string&, const std::string&, int pid) { came_.push_back(pid); },
            .on_change = [] {}});
    const auto added = doors_->add_pool(kPool);
    ASSERT_TRUE(added) << to_string(added.error());
  }
  void open() {
    start_daemon();
    make();
    const auto opened = doors_->open_pool(kPool);
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_EQ(request(R"({"do":"openDoor","pool":"gpu-1","grant":"0011223344556677"})"), R"({"ok":true})");
  }
  bool until(const std::function<bool()>& condition, Duration deadline = 60s) {
    return host::run_until(*loop_, condition, deadline);
  }
  // The reply, or "" when it does not come at once.
  std::string request(const std::string& line) {
    std::string answer;
    doors_->answer(line, [&](const std::string& json) { answer = json; });
    return answer;
  }
  Json document() {
    Json pool = Json::object();
    doors_->describe(kPool, pool);
    return pool;
  }
  std::unique_ptr<sim::TestProcess> client(const std::string& grant = kGrant) {
    return world_.start_client({"--hold"}, {{"CUDA_MPS_PIPE_DIRECTORY", paths_.door(kPool, grant)}});
  }
  std::string first_line(sim::TestProcess& process) {
    // The loop is our side of its handshake.
    EXPECT_TRUE(until([&] { return process.says("\n") || process.ended_within(0ms); }));
    return process.line_with("{");
  }
  static Terminated well(const std::vector<int>& pids) {
    Terminated outcomes;
    for (const int pid : pids) outcomes.push_back({pid, mps::TerminateOutcome::kTerminated, ""});
    return outcomes;
  }

  sim::MpsWorld world_;
  allocate::Paths paths_{world_.dir() + "/m"};
  std::unique_ptr<host::Loop> loop_;
  std::vector<std::vector<int>> asked_;
  std::function<void(const Terminated&)> done_;
  std::vector<int> came_;
  std::unique_ptr<Doors> doors_;
};

TEST_F(DoorsTest, AnOpenedDoorHoldsTwoSocketsAndLetsAClientIn) {
  open();
  const auto door = host::Dir::open(paths_.door(kPool, kGrant));
  ASSERT_TRUE(door);
  EXPECT_THAT(door->list().value(), ElementsAre("control", "drain"));
  struct stat facts{};
  ASSERT_EQ(::stat(door->path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode, S_IFDIR | 0755u);
  auto process = client();
  EXPECT_THAT(first_line(*process), HasSubstr("\"mps\":true"));
  EXPECT_EQ(document()["door"], "gate");
  EXPECT_EQ(document()["doors"][0]["clients"], Json::array({process->pid()}));
  EXPECT_EQ(*doors_->grant_of(kPool, process->pid()), kGrant);
}

TEST_F(DoorsTest, OpeningADoorAgainDisturbsNobody) {
  open();
  const auto before = inode_of(paths_.door(kPool, kGrant) + "/control");
  EXPECT_TRUE(doors_->open_door(kDoor));
  EXPECT_EQ(inode_of(paths_.door(kPool, kGrant) + "/control"), before);
}

TEST_F(DoorsTest, DoorsOfBeforeAreListenedAtAgain) {
  fs::create_directories(paths_.door(kPool, kGrant));
  fs::create_directories(paths_.doors(kPool) + "/not-a-grant");
  start_daemon();
  make();
  ASSERT_TRUE(doors_->open_pool(kPool));
  auto process = client();
  EXPECT_THAT(first_line(*process), HasSubstr("\"mps\":true"));
  EXPECT_EQ(document()["doors"].size(), 1u);
}

TEST_F(DoorsTest, ARemovedDoorIsGoneWithItsDirectory) {
  open();
  EXPECT_EQ(request(R"({"do":"removeDoor","pool":"gpu-1","grant":"0011223344556677"})"), R"({"ok":true})");
  EXPECT_FALSE(fs::exists(paths_.door(kPool, kGrant)));
  EXPECT_THAT(document()["doors"], IsEmpty());
  EXPECT_TRUE(doors_->remove_door(kDoor)) << "again";
}

TEST_F(DoorsTest, AClosedGrantLetsNobodyInUntilItIsOpenedAgain) {
  open();
  EXPECT_EQ(request(R"({"do":"admit","pool":"gpu-1","grant":"0011223344556677","open":false,"reason":"memory: over"})"),
            R"({"ok":true})");
  EXPECT_EQ(document()["doors"][0]["admitting"], false);
  EXPECT_EQ(document()["doors"][0]["reason"], "memory: over");
  auto refused = client();
  EXPECT_THAT(first_line(*refused), HasSubstr("CUDA_ERROR_MPS_CONNECTION_FAILED"));
  EXPECT_EQ(document()["doors"][0]["refused"], 1);
  EXPECT_EQ(request(R"({"do":"admit","pool":"gpu-1","grant":"0011223344556677","open":true})"), R"({"ok":true})");
  auto again = client();
  EXPECT_THAT(first_line(*again), HasSubstr("\"mps\":true"));
}

// By the stand-in as by the driver: with this value it would have all of the GPU's memory.
TEST_F(DoorsTest, AClientWhoseEnvironmentLiftsItsLimitIsNotLetIn) {
  open();
  doors_->set_most_clients(kPool, 48, {world_.uuid()});
  std::uint64_t refused = 0;
  for (const std::string& value :
       {std::string("zz"), std::string("0=0"), std::string("1=1G"), std::string(" "), std::string("\xff")}) {
    const auto process = world_.start_client(
        {"--hold", "--allocate", "100G"},
        {{"CUDA_MPS_PIPE_DIRECTORY", paths_.door(kPool, kGrant)}, {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", value}});
    EXPECT_THAT(first_line(*process), HasSubstr("CUDA_ERROR_MPS_CONNECTION_FAILED")) << value;
    const Json door = document()["doors"][0];
    EXPECT_EQ(door["refused"], ++refused);
    EXPECT_GE(door["limitsLifted"].get<std::uint64_t>(), refused);
    EXPECT_THAT(door["refusedWhy"].get<std::string>(),
                HasSubstr("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=\"" + (value == "\xff" ? R"(\xff)" : value) +
                          "\" is not understood by the driver"));
    EXPECT_FALSE(document().dump().empty()) << "whatever bytes the tenant wrote";
    EXPECT_THAT(door["refusedWhy"].get<std::string>(), HasSubstr("such as " + world_.uuid() + "=4096M"));
    EXPECT_THAT(door["clients"], IsEmpty());
  }
  EXPECT_THAT(came_, IsEmpty());
  for (const std::string& value : {std::string(), std::string("0=2G"), world_.uuid() + "=2G"}) {
    auto process = world_.start_client({"--hold"}, {{"CUDA_MPS_PIPE_DIRECTORY", paths_.door(kPool, kGrant)},
                                                    {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", value}});
    EXPECT_THAT(first_line(*process), HasSubstr("\"mps\":true")) << value;
  }
}

TEST_F(DoorsTest, TheCeilingOfClientsHoldsForNewProcesses) {
  open();
  doors_->set_most_clients(kPool, 1, {"GPU-1"});
  auto first = client();
  EXPECT_THAT(first_line(*first), HasSubstr("\"mps\":true"));
  auto second = client();
  EXPECT_TRUE(until([&] { return second->ended_within(0ms); }));
  first->signal(SIGKILL);
  EXPECT_TRUE(until([&] { return doors_->grant_of(kPool, first->pid()) == nullptr; }));
  came_.clear();
  auto third = client();
  EXPECT_THAT(first_line(*third), HasSubstr("\"mps\":true"));
}

TEST_F(DoorsTest, WhatCannotBeAnsweredIsSaid) {
  make();
  EXPECT_THAT(request("{}"), HasSubstr("\"ok\":false"));
  EXPECT_THAT(request(R"({"do":"openDoor","pool":"gpu-2","grant":"0011223344556677"})"), HasSubstr("does not serve"));
  EXPECT_THAT(request(R"({"do":"admit","pool":"gpu-1","grant":"8899aabbccddeeff","open":true})"),
              HasSubstr("no such door"));
  EXPECT_THAT(request(R"({"do":"drain","pool":"gpu-2","grant":"0011223344556677"})"), HasSubstr("does not serve"));
}

TEST_F(DoorsTest, AskedForLinksTheDoorHoldsTheDaemonsOwnSocketAndTheStatusSaysWhatThatMeans) {
  fs::create_directories(paths_.door(kPool, kGrant));
  start_daemon();
  make(config::DoorPolicy::kLink);
  ASSERT_TRUE(doors_->open_pool(kPool));
  EXPECT_EQ(inode_of(paths_.door(kPool, kGrant) + "/control"), inode_of(paths_.pipe(kPool) + "/control"));
  EXPECT_EQ(document()["door"], "link");
  EXPECT_THAT(document()["doorReason"].get<std::string>(), HasSubstr("tenants with root can command this daemon"));
  Json pool{{"notEnforced", Json::array()}};
  doors_->describe(kPool, pool);
  EXPECT_THAT(pool["notEnforced"][0].get<std::string>(), HasSubstr("environment only"));
  ASSERT_TRUE(doors_->open_door({kPool, "8899aabbccddeeff"}));
  EXPECT_EQ(inode_of(paths_.door(kPool, "8899aabbccddeeff") + "/control"), inode_of(paths_.pipe(kPool) + "/control"));
  EXPECT_EQ(doors_->admit(kDoor, false, "").error().kind, Kind::kUnsupported);
}

TEST_F(DoorsTest, BehindADaemonThatGreetsInOtherWordsDoorsAreLinksAndTheReasonIsShown) {
  fs::create_directories(paths_.door(kPool, kGrant));
  const auto stranger = sim::listen_at(paths_.pipe(kPool) + "/control", 0666);
  make();
  EXPECT_EQ(document()["door"], "gate");
  ASSERT_TRUE(doors_->open_pool(kPool));
  ASSERT_TRUE(until([&] { return readable(stranger.get()); }));
  const sim::Fd accepted(::accept4(stranger.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(sim::send_packet(accepted.get(), "HELLO OF ANOTHER RELEASE"));
  ASSERT_TRUE(until([&] { return document()["door"] == "link"; }));
  EXPECT_THAT(document()["doorReason"].get<std::string>(), HasSubstr("words that this program does not know"));
  EXPECT_EQ(inode_of(paths_.door(kPool, kGrant) + "/control"), inode_of(paths_.pipe(kPool) + "/control"));
  // The next daemon may be another: it is looked at anew.
  start_daemon();
  ASSERT_TRUE(doors_->open_pool(kPool));
  ASSERT_TRUE(until([&] { return document()["door"] == "gate"; }));
  auto process = client();
  EXPECT_THAT(first_line(*process), HasSubstr("\"mps\":true"));
}

TEST_F(DoorsTest, ADrainEndsTheGrantsClientsAndMayComeAgain) {
  open();
  auto process = client();
  (void)first_line(*process);
  std::vector<std::string> answers;
  const auto note = [&](const std::string& json) { answers.push_back(json); };
  const std::string line = R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677","reason":"stop"})";
  for (std::size_t times = 1; times <= 2; ++times) {
    doors_->answer(line, note);
    ASSERT_EQ(asked_.size(), times);
    EXPECT_THAT(asked_.back(), ElementsAre(process->pid()));
    done_(well(asked_.back()));
    ASSERT_EQ(answers.size(), times);
    EXPECT_EQ(Json::parse(answers.back())["clients"][0]["outcome"], "terminated");
    EXPECT_EQ(Json::parse(answers.back())["neighbours"], 0);
  }
}

TEST_F(DoorsTest, ADrainThatSparesEndsOnlyThoseThatTheSignalKills) {
  open();
  const auto before = std::signal(SIGUSR2, SIG_IGN);  // a process inherits what is ignored
  auto process = client();
  std::signal(SIGUSR2, before);
  (void)first_line(*process);
  const auto ask = [&](int signal) {
    std::string answer;
    doors_->answer(R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677","spare":true,"signal":)" +
                       std::to_string(signal) + "}",
                   [&](const std::string& json) { answer = json; });
    if (!asked_.empty()) done_(well(asked_.back()));
    return Json::parse(answer)["clients"][0]["outcome"].get<std::string>();
  };
  EXPECT_EQ(ask(SIGUSR2), "spared");
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_EQ(ask(SIGTERM), "terminated");
}

TEST_F(DoorsTest, AVerdictAboutAClientIsKeptForASecond) {
  int looks = 0;
  Draining draining(*loop_, {.clients = [](const DoorName&) { return std::vector<int>{::getpid()}; },
                             .neighbours = {},
                             .terminate = {},
                             .on_change = [] {},
                             .fates =
                                 [&looks](const std::vector<int>& clients, int) {
                                   ++looks;
                                   return std::vector<stopping::Fate>(clients.size(), {true, "it may work on"});
                                 }});
  const auto ask = [&draining](int signal) {
    std::string answer;
    draining.drain(kDoor, {.spare = true, .stop_signal = signal}, [&](const std::string& json) { answer = json; });
    EXPECT_THAT(answer, HasSubstr("it may work on"));
  };
  for (int i = 0; i < 20; ++i) ask(SIGTERM);
  EXPECT_EQ(looks, 1);
  ask(SIGINT);
  EXPECT_EQ(looks, 2) << "a verdict is about one signal";
  const auto begun = loop_->now();
  ASSERT_TRUE(until([&] { return loop_->now() - begun >= kJudgedFor; }));
  ask(SIGTERM);
  EXPECT_EQ(looks, 3);
}

TEST_F(DoorsTest, ADrainWithoutClientsIsDoneAtOnce) {
  open();
  EXPECT_THAT(request(R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677"})"), HasSubstr("\"clients\":[]"));
  EXPECT_THAT(asked_, IsEmpty());
}

// What a tenant may have kept: the directory (here as a descriptor, as over a socket to a different pod), a connection
// that waits, a client.
TEST_F(DoorsTest, ANewTenantGetsADirectoryThatNothingOfTheFormerOneReaches) {
  open();
  auto former = client();
  EXPECT_THAT(first_line(*former), HasSubstr("\"mps\":true"));
  const sim::Fd kept(::open(paths_.door(kPool, kGrant).c_str(), O_PATH | O_DIRECTORY));  // inherited on purpose
  const std::string way = "/proc/self/fd/" + std::to_string(kept.get());
  const auto made = document()["doors"][0]["made"].get<std::uint64_t>();
  EXPECT_EQ(request(R"({"do":"openDoor","pool":"gpu-1","grant":"0011223344556677","newTenant":true})"),
            R"({"ok":true})");
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(former->pid())));
  EXPECT_GT(document()["doors"][0]["made"].get<std::uint64_t>(), made);
  EXPECT_THAT(document()["doors"][0]["clients"], IsEmpty()) << "the former tenant's is not this tenant's";
  struct stat old_one{}, new_one{};
  ASSERT_EQ(::fstat(kept.get(), &old_one), 0);
  ASSERT_EQ(::stat(paths_.door(kPool, kGrant).c_str(), &new_one), 0);
  EXPECT_EQ(old_one.st_nlink, 0u) << "it is gone";
  auto stale = world_.start_client({}, {{"CUDA_MPS_PIPE_DIRECTORY", way}});
  EXPECT_THAT(first_line(*stale), Not(HasSubstr("\"mps\":true")));
  // Newcomers wait until the former client has ended, and then come in.
  came_.clear();
  auto next = client();
  EXPECT_FALSE(until([&] { return !came_.empty(); }, 200ms));
  former->signal(SIGKILL);
  done_(well(asked_[0]));
  EXPECT_THAT(first_line(*next), HasSubstr("\"mps\":true"));
  EXPECT_EQ(document()["doors"][0]["clients"], Json::array({next->pid()}));
}

TEST_F(DoorsTest, ARemovedDoorEndsItsClientsAndNeverThatOfANewTenant) {
  open();
  auto former = client();
  EXPECT_THAT(first_line(*former), HasSubstr("\"mps\":true"));
  const auto made = document()["doors"][0]["made"].get<std::uint64_t>();
  EXPECT_EQ(request(R"({"do":"openDoor","pool":"gpu-1","grant":"0011223344556677","newTenant":true})"),
            R"({"ok":true})");
  const auto remove = [&](std::uint64_t which) {
    return request(R"({"do":"removeDoor","pool":"gpu-1","grant":"0011223344556677","made":)" + std::to_string(which) +
                   "}");
  };
  EXPECT_THAT(remove(made), HasSubstr("it has a new tenant"));
  EXPECT_TRUE(fs::exists(paths_.door(kPool, kGrant) + "/control"));
  former->signal(SIGKILL);
  done_(well(asked_[0]));
  auto next = client();
  EXPECT_THAT(first_line(*next), HasSubstr("\"mps\":true"));
  EXPECT_EQ(remove(document()["doors"][0]["made"].get<std::uint64_t>()), R"({"ok":true})");
  EXPECT_THAT(asked_.back(), ElementsAre(next->pid()));
  EXPECT_FALSE(fs::exists(paths_.door(kPool, kGrant)));
}

// Its number may be a different process's by the time that the loop hears of its end.
TEST_F(DoorsTest, AClientThatHasEndedIsNoneBeforeItsEndIsNoticed) {
  open();
  auto process = client();
  EXPECT_THAT(first_line(*process), HasSubstr("\"mps\":true"));
  process->signal(SIGKILL);
  ASSERT_TRUE(process->ended_within(5s));
  EXPECT_THAT(document()["doors"][0]["clients"], IsEmpty());
  EXPECT_EQ(doors_->grant_of(kPool, process->pid()), nullptr);
  EXPECT_THAT(request(R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677"})"), HasSubstr("\"clients\":[]"));
}

TEST_F(DoorsTest, TerminateIsPassedOn) {
  open();
  std::string answer;
  doors_->answer(R"({"do":"terminate","pool":"gpu-1","pids":[7],"reason":"x"})",
                 [&](const std::string& json) { answer = json; });
  ASSERT_THAT(asked_, ElementsAre(ElementsAre(7)));
  done_({{7, mps::TerminateOutcome::kNotAClient, ""}});
  EXPECT_EQ(Json::parse(answer)["clients"][0]["outcome"], "not-a-client");
}

// A process in a mount namespace of its own, and perhaps a pid namespace, as a container's first, with a shim above it:
// it does what one byte asks for. Made before anything is connected to the daemon: it keeps what it inherits open.
class Container {
 public:
  explicit Container(const std::string& door, bool own_pids = false) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0) std::abort();
    shim_ = ::fork();
    if (shim_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (own_pids && ::unshare(CLONE_NEWPID) != 0) std::abort();
      const pid_t first = ::fork();
      if (first == 0) live(ends_[1], door);
      ::close(ends_[0]);
      ::close(ends_[1]);
      ::waitpid(first, nullptr, 0);
      ::_exit(0);
    }
    ::close(ends_[1]);
    char ready = 0;
    if (::read(ends_[0], &ready, 1) != 1 || ready != 'r') std::abort();
  }
  ~Container() { kill(); }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;
  void tell(char what) const {
    if (::write(ends_[0], &what, 1) != 1) std::abort();
  }
  int fd() const { return ends_[0]; }
  std::string said() const {
    char text[512];
    const auto got = ::read(ends_[0], text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  void kill() {
    if (shim_ <= 0) return;
    ::kill(shim_, SIGKILL);  // and with it the others, each with its parent
    ::waitpid(std::exchange(shim_, 0), nullptr, 0);
    ::close(ends_[0]);
  }

 private:
  static std::string ask_to_drain(const std::string& door) {
    const int fd = connect_stream(door + "/drain");
    char text[512];
    ssize_t got = ::write(fd, "drain\n", 6);
    if (got == 6) got = ::read(fd, text, sizeof text);
    ::close(fd);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  static std::string come_in(const std::string& door) {
    const sim::Fd fd = sim::connect_to(door + "/control");
    sim::Packet packet;
    const bool asked = sim::await_hello(fd.get(), 5000) && sim::introduce(fd.get(), sim::ConnectionType::kClient);
    const bool in = asked && sim::receive_packet(fd.get(), &packet) == sim::Arrived::kPacket;
    if (packet.descriptor.valid()) {
      sim::send_message(packet.descriptor.get(), {"init", {}});
      sim::send_packet(fd.get(), sim::kAcknowledged);
    }
    return in ? "in" : "out";
  }
  // As bubblewrap, apptainer and `unshare -m` start a program.
  static std::string come_in_nested(const std::string& door) {
    int says[2];
    std::signal(SIGTERM, [](int) {});  // as an init that hands the signal on
    if (::pipe2(says, O_CLOEXEC) != 0) return "no pipe";
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::signal(SIGTERM, SIG_DFL);
      const std::string said = ::unshare(CLONE_NEWNS) == 0 ? come_in(door) : "no mount namespace";
      if (::write(says[1], said.data(), said.size()) > 0) ::pause();
      ::_exit(0);
    }
    char text[64];
    const auto got = ::read(says[0], text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  [[noreturn]] static void live(int orders, const std::string& door) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char ready = ::unshare(CLONE_NEWNS) == 0 ? 'r' : 'x';
    if (::write(orders, &ready, 1) != 1) ::_exit(1);
    for (char what = 0; ::read(orders, &what, 1) == 1;) {
      std::string said;
      if (what == 'd') said = ask_to_drain(door);
      if (what == 'm') {
        (void)::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);  // held, so that no number comes again
        said = ::unshare(CLONE_NEWNS) == 0 ? ask_to_drain(door) : "no mount namespace";
      }
      if (what == 'n') said = come_in_nested(door);
      if (what == 'c') said = come_in(door);
      if (::write(orders, said.data(), said.size()) < 0) ::_exit(1);
    }
    ::_exit(0);
  }
  int ends_[2] = {-1, -1};
  pid_t shim_ = -1;
};

class DoorsOfContainers : public DoorsTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root for a mount namespace";
    DoorsTest::SetUp();
  }
  std::string answer_of(const Container& container, char what) {
    container.tell(what);
    EXPECT_TRUE(until([&] { return readable(container.fd()); }));
    return container.said();
  }
};

TEST_F(DoorsOfContainers, ADrainedContainerComesInNoMoreAndItsSuccessorDoesAtOnce) {
  Container old(paths_.door(kPool, kGrant));
  const Container next(paths_.door(kPool, kGrant));
  open();
  EXPECT_EQ(answer_of(old, 'c'), "in");
  old.tell('d');
  ASSERT_TRUE(until([&] { return !asked_.empty(); }));
  done_(well(asked_[0]));
  ASSERT_TRUE(until([&] { return readable(old.fd()); }));
  EXPECT_EQ(Json::parse(old.said())["clients"].size(), 1u);
  EXPECT_EQ(answer_of(old, 'c'), "out");
  EXPECT_EQ(document()["doors"][0]["admitting"], false);
  EXPECT_EQ(answer_of(next, 'c'), "in") << "another container under the same grant";
  old.kill();
  EXPECT_TRUE(until([&] { return document()["doors"][0]["admitting"] == true; })) << "its init has ended";
}

// Which clients are a container's: with a pid namespace of its own, and in the host's.
class NestedClients : public DoorsOfContainers, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OwnPids, NestedClients, ::testing::Bool());

TEST_P(NestedClients, EndWithTheirContainerAndNoOthers) {
  const Container container(paths_.door(kPool, kGrant), GetParam());
  const Container neighbour(paths_.door(kPool, kGrant), GetParam());
  open();
  EXPECT_EQ(answer_of(neighbour, 'c'), "in");
  came_.clear();
  ASSERT_EQ(answer_of(container, 'n'), "in");
  ASSERT_EQ(came_.size(), 1u);
  container.tell('d');
  ASSERT_TRUE(until([&] { return !asked_.empty(); }, 5s)) << "the client was not found";
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(came_[0])));
  // It did not end: the container must not be reported as free of clients.
  done_({{came_[0], mps::TerminateOutcome::kTimedOut, "the process has not exited"}});
  ASSERT_TRUE(until([&] { return readable(container.fd()); }));
  const Json reply = Json::parse(container.said());
  EXPECT_EQ(reply["ok"], false);
  EXPECT_EQ(reply["clients"][0]["pid"], came_[0]);
  EXPECT_EQ(answer_of(container, 'n'), "out") << "also from a nested namespace";
}

TEST_F(DoorsOfContainers, ASecondContainersClientsEndWhileTheFirstsAreBeingEnded) {
  const Container first(paths_.door(kPool, kGrant));
  const Container second(paths_.door(kPool, kGrant));
  open();
  ASSERT_EQ(answer_of(first, 'c'), "in");
  ASSERT_EQ(answer_of(second, 'c'), "in");
  ASSERT_EQ(came_.size(), 2u);
  first.tell('d');
  ASSERT_TRUE(until([&] { return asked_.size() == 1; }));
  second.tell('d');
  ASSERT_TRUE(until([&] { return asked_.size() == 2; }));
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(came_[0]), ElementsAre(came_[1])));
}

TEST_F(DoorsOfContainers, MountNamespacesOfOneContainerCostNoDescriptorEach) {
  const Container host_pids(paths_.door(kPool, kGrant));
  const Container own_pids(paths_.door(kPool, kGrant), true);
  open();
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = descriptors();
  for (int i = 0; i < 6; ++i) EXPECT_THAT(answer_of(own_pids, 'm'), HasSubstr("\"ok\":true"));
  EXPECT_LE(descriptors() - before, 1) << "a pid namespace is one container";
  for (int i = 0; i < 8; ++i) EXPECT_THAT(answer_of(host_pids, 'm'), HasSubstr("\"ok\":true"));
  EXPECT_LE(descriptors() - before, 4) << "closed containers are few where nothing identifies a container";
}

TEST_F(DoorsOfContainers, RequestsOfATenantAreAnsweredAtABoundedRate) {
  open();
  const std::string drain = paths_.door(kPool, kGrant) + "/drain";
  std::vector<int> callers;
  for (int i = 0; i < 60; ++i) {
    callers.push_back(connect_stream(drain));
    ASSERT_EQ(::write(callers.back(), "drain\n", 6), 6);
  }
  const auto answered = [&] { return std::ranges::count_if(callers, [](int fd) { return readable(fd); }); };
  (void)until([&] { return answered() == 60; }, 500ms);
  EXPECT_GE(answered(), 16);
  EXPECT_LE(answered(), 20);
  for (const int fd : callers) ::close(fd);
}

TEST_F(DoorsOfContainers, AUserOfTheNodeEndsNoClients) {
  open();
  auto process = client();
  (void)first_line(*process);
  int says[2];
  ASSERT_EQ(::pipe2(says, O_CLOEXEC), 0);
  const pid_t user = ::fork();
  if (user == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const int fd = connect_stream(paths_.door(kPool, kGrant) + "/drain");
    char text[512];
    ssize_t got = ::write(fd, "drain\n", 6);
    if (got == 6) got = ::read(fd, text, sizeof text);
    if (::write(says[1], text, static_cast<std::size_t>(std::max<ssize_t>(1, got))) < 0) ::_exit(1);
    ::_exit(0);
  }
  ASSERT_TRUE(until([&] { return readable(says[0]); }));
  char text[512];
  const auto got = ::read(says[0], text, sizeof text);
  EXPECT_THAT(std::string(text, static_cast<std::size_t>(got)),
              HasSubstr("container of the calling process is not known"));
  EXPECT_THAT(asked_, IsEmpty());
  ::waitpid(user, nullptr, 0);
  ::close(says[0]);
  ::close(says[1]);
}

TEST_F(DoorsOfContainers, WhoeverPlaysWithTheDrainSocketOnlyHurtsItself) {
  const Container other(paths_.door(kPool, "8899aabbccddeeff"));
  open();
  const std::string drain = paths_.door(kPool, kGrant) + "/drain";
  std::vector<int> mute;
  for (int i = 0; i < 16; ++i) mute.push_back(connect_stream(drain));
  const int wrong = mute.back();
  ASSERT_GT(::write(wrong, "quit\n", 5), 0);
  EXPECT_TRUE(doors_->open_door({kPool, "8899aabbccddeeff"}));
  EXPECT_EQ(answer_of(other, 'c'), "in");
  EXPECT_TRUE(until([&] { return readable(mute.front()); })) << "cut off after its two seconds";
  char byte = 0;
  EXPECT_EQ(::read(mute.front(), &byte, 1), 0);
  for (const int fd : mute) ::close(fd);
}

}  // namespace doors_test
}  // namespace tranche::agent
