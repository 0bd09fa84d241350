// The program sim-kubelet as a user runs it: a child process, real containers, a tiny plugin in this process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "standins/kubelet/tiny_plugin.h"

namespace tranche::sim {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr auto kSoon = 60s;

int milliseconds_until(steady_clock::time_point deadline) {
  return static_cast<int>(
      std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count()));
}

class SimKubelet : public testing::Test {
 protected:
  SimKubelet() {
    char name[] = "/tmp/sp-XXXXXX";
    dir_ = ::mkdtemp(name);
    std::filesystem::create_directory(dir_ + "/dp");
    watch_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    ::inotify_add_watch(watch_, dir_.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
    ::inotify_add_watch(watch_, (dir_ + "/dp").c_str(), IN_CREATE);
  }
  ~SimKubelet() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    tiny_.reset();
    ::close(watch_);
    std::filesystem::remove_all(dir_);
  }

  std::string pods_file(const std::string& yaml) {
    const std::string path = dir_ + "/pods" + std::to_string(++files_) + ".yaml";
    std::ofstream(path) << yaml;
    return path;
  }

  // "name: script" run by sh, requesting `count` devices.
  static std::string pod(const std::string& name, const std::string& script, int count,
                         const std::string& policy = "Never") {
    std::ostringstream yaml;
    yaml << "---\nkind: Pod\nmetadata: {name: " << name << "}\nspec:\n  restartPolicy: " << policy
         << "\n  containers:\n  - name: main\n    command: [sh, -c]\n    args:\n    - |\n      " << script
         << "\n    resources: {limits: {nvidia.com/gpu: " << count << "}}\n";
    return yaml.str();
  }

  void start(std::vector<std::string> more, const std::string& yaml) {
    std::vector<std::string> words = {
        program(),   "--plugin-dir", dir_ + "/dp",    "--state-file",           dir_ + "/state", "--control",
        dir_ + "/c", "--pods",       pods_file(yaml), "--pod-resources-socket", dir_ + "/pr"};
    words.insert(words.end(), more.begin(), more.end());
    pid_ = spawn(words);
  }

  // Serves, and registers once kubelet.sock exists.
  void register_plugin(std::vector<TinyDevice> devices, decltype(TinyPlugin::allocation) allocation = {}) {
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(dir_ + "/dp/kubelet.sock"); }));
    tiny_ = std::make_unique<TinyPlugin>(dir_ + "/dp", "tiny.sock");
    tiny_->allocation = std::move(allocation);
    tiny_->set_devices(std::move(devices));
    tiny_->serve();
    const auto status = tiny_->register_as(kGpu);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  static std::string program() {
    const char* build = ::getenv("TRANCHE_BUILD");  // ctest sets it; by hand, run in the build folder
    return std::string(build ? build : ".") + "/standins/sim-kubelet";
  }

  pid_t spawn(const std::vector<std::string>& words) const {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, 2, (dir_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::posix_spawn_file_actions_adddup2(&files, 2, 1);
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), environ), 0) << argv[0];
    ::posix_spawn_file_actions_destroy(&files);
    return pid;
  }

  // Woken by changes of files in the test's folder; checks again at each change.
  template <class Predicate>
  bool wait_until(Predicate predicate) {
    const auto deadline = steady_clock::now() + kSoon;
    while (!predicate()) {
      pollfd waiting{.fd = watch_, .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, milliseconds_until(deadline)) <= 0) return predicate();
      std::array<char, 4096> events;
      while (::read(watch_, events.data(), events.size()) > 0) {
      }
    }
    return true;
  }

  json state() const {
    std::ifstream file(dir_ + "/state");
    return file ? json::parse(file, nullptr, false) : json();
  }
  json pod_state(const std::string& name) const {
    const json now = state();
    if (!now.is_object()) return {};
    for (const auto& one : now["pods"]) {
      if (one["name"] == name) return one;
    }
    return {};
  }
  bool wait_for_phase(const std::string& name, const std::string& phase) {
    return wait_until([&] {
      const json one = pod_state(name);
      return one.is_object() && one["phase"] == phase;
    });
  }
  bool wait_for_output(const std::string& name, const std::string& line) {
    return wait_until([&] {
      const json one = pod_state(name);
      if (!one.is_object()) return false;
      const auto& output = one["containers"][0]["output"];
      return std::find(output.begin(), output.end(), line) != output.end();
    });
  }

  int wait_for_exit(pid_t pid) const {
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kSoon).count()));
    ::close(fd);
    int status = -1;
    if (ready != 1 || ::waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int exit_status() { return wait_for_exit(std::exchange(pid_, 0)); }

  // A process that is not a child is gone if its pidfd reports so, or if it never existed.
  static bool wait_until_gone(pid_t pid) {
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) return errno == ESRCH;
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kSoon).count()));
    ::close(fd);
    return ready == 1;
  }

  int send(const std::string& command) {
    std::vector<std::string> words = {program(), "send", dir_ + "/c"};
    std::istringstream pieces(command);
    for (std::string piece; pieces >> piece;) words.push_back(piece);
    return wait_for_exit(spawn(words));
  }

  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(dir_ + "/log").rdbuf();
    return text.str();
  }

  std::string dir_;
  int watch_ = -1;
  int files_ = 0;
  pid_t pid_ = 0;
  std::unique_ptr<TinyPlugin> tiny_;
};

TEST_F(SimKubelet, RunsAPodWithItsGrantAndKeepsWhatItSaid) {
  std::filesystem::create_directory(dir_ + "/endpoint");
  start({"--once"},
        pod("one", R"(echo hello; echo "{\"endpoint\": \"$DOOR\", \"slot\": \"$SLOT\"}"; test -d "$DOOR")", 1));
  register_plugin({{"a"}, {"b", false}}, [&](const auto& ids, v1beta1::ContainerAllocateResponse* response) {
    (*response->mutable_envs())["SLOT"] = ids.front();
    (*response->mutable_envs())["DOOR"] = "/nowhere/endpoint";
    auto& mount = *response->add_mounts();
    mount.set_container_path("/nowhere/endpoint");
    mount.set_host_path(dir_ + "/endpoint");
    mount.set_read_only(true);
    return grpc::Status::OK;
  });
  EXPECT_EQ(exit_status(), 0) << log();
  const json one = pod_state("one");
  EXPECT_EQ(one["phase"], "Succeeded");
  const json& container = one["containers"][0];
  EXPECT_EQ(container["exit"], 0);
  EXPECT_EQ(container["slots"][kGpu], json::array({"a"}));
  EXPECT_EQ(container["envs"]["DOOR"], "/nowhere/endpoint");
  EXPECT_EQ(container["last_output_json"]["endpoint"], dir_ + "/endpoint");  // without a namespace: the host's path
  EXPECT_EQ(container["last_output_json"]["slot"], "a");
  EXPECT_EQ(container["output"][0], "hello");
  EXPECT_EQ(state()["resources"][kGpu]["capacity"], 2);
  EXPECT_EQ(state()["resources"][kGpu]["allocatable"], 1);
}

TEST_F(SimKubelet, KeepsAPodPendingWithAReasonUntilItFits) {
  start({}, pod("first", "exec sleep 100", 2) + pod("second", "exec sleep 100", 2) + pod("third", "exec sleep 100", 1));
  EXPECT_TRUE(wait_until([&] {
    const json one = pod_state("first");
    return one.is_object() && one["message"] == "asks 2 nvidia.com/gpu, which this node does not offer";
  }));
  register_plugin({{"a"}, {"b"}, {"c"}});
  ASSERT_TRUE(wait_for_phase("first", "Running")) << log();
  ASSERT_TRUE(wait_for_phase("third", "Running")) << log();  // fits, although it was created later
  EXPECT_EQ(pod_state("second")["phase"], "Pending");
  EXPECT_EQ(pod_state("second")["message"], "asks 2 nvidia.com/gpu, 0 free");
  EXPECT_EQ(send("delete first"), 0);
  EXPECT_TRUE(wait_for_phase("second", "Running")) << log();
  EXPECT_TRUE(pod_state("first").is_null());
  EXPECT_NE(send("delete first"), 0);
}

TEST_F(SimKubelet, ShowsThePluginsWordsWhenItRefuses) {
  start({"--once"}, pod("one", "true", 1));
  register_plugin({{"a"}}, [](const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the pool is not serving");
  });
  EXPECT_EQ(exit_status(), 1);
  EXPECT_EQ(pod_state("one")["reason"], "UnexpectedAdmissionError");
  EXPECT_THAT(pod_state("one")["message"].get<std::string>(),
              HasSubstr("code = FailedPrecondition desc = the pool is not serving"));
}

TEST_F(SimKubelet, RestartsAContainerWithTheRecordedAnswer) {
  std::atomic<int> asked = 0;
  start({"--once", "--back-off", "0.1"},
        pod("one", "echo got $COUNT; echo x >> " + dir_ + "/runs; test $(wc -l < " + dir_ + "/runs) = 3", 1,
            "OnFailure"));
  register_plugin({{"a"}}, [&](const auto&, v1beta1::ContainerAllocateResponse* response) {
    (*response->mutable_envs())["COUNT"] = std::to_string(++asked);
    return grpc::Status::OK;
  });
  EXPECT_EQ(exit_status(), 0) << log();
  EXPECT_EQ(asked, 1);
  const json container = pod_state("one")["containers"][0];
  EXPECT_EQ(container["restarts"], 2);
  EXPECT_EQ(container["output"], json::array({"got 1", "got 1", "got 1"}));
}

TEST_F(SimKubelet, SaysWhyAContainerCannotStart) {
  start({"--once"},
        "kind: Pod\nmetadata: {name: one}\nspec: {restartPolicy: Never, containers: [{name: m, command: "
        "[/no/such/program]}]}\n");
  EXPECT_EQ(exit_status(), 1);
  const json container = pod_state("one")["containers"][0];
  EXPECT_EQ(container["reason"], "StartError");
  EXPECT_EQ(container["exit"], 128);
  EXPECT_THAT(container["message"].get<std::string>(), HasSubstr("/no/such/program"));
}

TEST_F(SimKubelet, RefusesAContainerWhoseMountIsMissingOnTheHost) {
  start({"--once"}, pod("one", "true", 1));
  register_plugin({{"a"}}, [](const auto&, v1beta1::ContainerAllocateResponse* response) {
    auto& mount = *response->add_mounts();
    mount.set_container_path("/mps");
    mount.set_host_path("/no/such/endpoint");
    return grpc::Status::OK;
  });
  EXPECT_EQ(exit_status(), 1);
  EXPECT_THAT(pod_state("one")["containers"][0]["message"].get<std::string>(), HasSubstr("/no/such/endpoint"));
}

TEST_F(SimKubelet, LeavesContainersRunningWhenKubeletRestarts) {
  start({}, pod("one", "exec sleep 100", 1));
  register_plugin({{"a"}, {"b"}});
  ASSERT_TRUE(wait_for_phase("one", "Running")) << log();
  const json before = pod_state("one");
  EXPECT_EQ(send("restart"), 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/dp/tiny.sock"));
  EXPECT_EQ(state()["resources"][kGpu]["capacity"], 0);
  EXPECT_EQ(send("apply " + pods_file(pod("two", "exec sleep 100", 1))), 0);
  ASSERT_TRUE(wait_until([&] { return pod_state("two").is_object(); }));
  EXPECT_EQ(pod_state("two")["message"], "asks 1 nvidia.com/gpu, 0 free");
  tiny_->stop();
  register_plugin({{"a"}, {"b"}});
  ASSERT_TRUE(wait_for_phase("two", "Running")) << log();
  EXPECT_EQ(pod_state("one")["containers"][0]["pid"], before["containers"][0]["pid"]);
  EXPECT_NE(pod_state("two")["containers"][0]["slots"], before["containers"][0]["slots"]);
}

TEST_F(SimKubelet, EndsEveryContainerOnSigterm) {
  start({"--grace", "0.2"}, pod("polite", "exec sleep 100", 1) +
                                pod("deaf", "trap '' TERM; echo ready; while :; do sleep 1; done", 1) +
                                pod("fork",
                                    "sleep 100 & echo child $!; setsid sh -c 'echo stray $$$$; sleep 100 & echo under "
                                    "$!; exec sleep 100' & wait",
                                    1));
  register_plugin({{"a"}, {"b"}, {"c"}});
  ASSERT_TRUE(wait_for_phase("polite", "Running"));
  ASSERT_TRUE(wait_for_output("deaf", "ready"));
  const auto said = [&] {
    const json one = pod_state("fork");
    return one.is_object() ? one["containers"][0]["output"] : json::array();
  };
  ASSERT_TRUE(wait_until([&] { return said().size() == 3; }));
  std::vector<pid_t> pids;
  for (const char* name : {"polite", "deaf", "fork"}) {
    pids.push_back(pod_state(name)["containers"][0]["pid"].get<pid_t>());
  }
  // "child 12", "stray 13", "under 14": one in the container's group, one not, and one that this one's death leaves to
  // sim-kubelet.
  for (const std::string line : said()) {
    pids.push_back(static_cast<pid_t>(std::stoi(line.substr(6))));
  }
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(exit_status(), 0) << log();
  for (const pid_t pid : pids) EXPECT_TRUE(wait_until_gone(pid)) << pid;
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/c"));
}

TEST_F(SimKubelet, TakesItsContainersAlongWhenItIsKilled) {
  start({}, pod("one", "exec sleep 100", 1));
  register_plugin({{"a"}});
  ASSERT_TRUE(wait_for_phase("one", "Running"));
  const pid_t container = pod_state("one")["containers"][0]["pid"].get<pid_t>();
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(exit_status(), 128 + SIGKILL);
  EXPECT_TRUE(wait_until_gone(container));
}

TEST_F(SimKubelet, KeepsTheNumberOfPodsOfADeployment) {
  start({},
        "kind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n"
        "      - {name: m, command: [sleep, '100'], resources: {limits: {nvidia.com/gpu: 1}}}\n");
  register_plugin({{"a"}, {"b"}});
  ASSERT_TRUE(wait_for_phase("web-0", "Running")) << log();
  ASSERT_TRUE(wait_for_phase("web-1", "Running")) << log();
  const std::string uid = pod_state("web-0")["uid"];
  EXPECT_EQ(send("delete web-0"), 0);
  ASSERT_TRUE(wait_until([&] {
    const json one = pod_state("web-0");
    return one.is_object() && one["uid"] != uid && one["phase"] == "Running";
  })) << log();
  EXPECT_EQ(send("delete deployment/web"), 0);
  EXPECT_TRUE(wait_until([&] { return state()["pods"].empty(); })) << log();
}

TEST_F(SimKubelet, NamesThePlaceOfAMistakeInAPodFile) {
  const pid_t child = spawn({program(), "--plugin-dir", dir_ + "/dp", "--pods", pods_file("kind: Pot\n")});
  EXPECT_EQ(wait_for_exit(child), 2);
  EXPECT_THAT(log(), HasSubstr("pods1.yaml:1:7: error: kind: \"Pot\" is not a kind that runs here"));
}

TEST_F(SimKubelet, SuggestsTheOptionThatWasMeant) {
  EXPECT_EQ(wait_for_exit(spawn({program(), "--plugindir", "/tmp"})), 2);
  EXPECT_THAT(log(), HasSubstr("did you mean --plugin-dir?"));
}

// Whether this process may make mounts: tested in a child, which makes this one system call and exits.
bool may_mount() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWNS) == 0 ? 0 : 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST_F(SimKubelet, GivesAContainerItsOwnMountsInANamespace) {
  if (!may_mount()) GTEST_SKIP() << "mount namespaces need root";
  std::filesystem::create_directory(dir_ + "/endpoint");
  std::ofstream(dir_ + "/endpoint/control") << "endpoint\n";
  std::filesystem::create_directory(dir_ + "/scratch");
  const std::string script =
      "cat /tranche-sim/endpoint/control; cat /run/tranche-sim/deep/endpoint/control; "
      "touch /tranche-sim/endpoint/x 2>/dev/null || echo read-only; touch /run/tranche-sim/scratch/y && echo writable; "
      "cat /tranche-sim/one; ls -d /usr /proc/self /dev/null; grep -c tranche-sim /proc/self/mountinfo";
  start({"--once", "--containers", "namespaces"}, pod("one", script, 1));
  register_plugin({{"a"}}, [&](const auto&, v1beta1::ContainerAllocateResponse* response) {
    const auto add = [&](const std::string& to, const std::string& from, bool read_only) {
      auto& mount = *response->add_mounts();
      mount.set_container_path(to);
      mount.set_host_path(from);
      mount.set_read_only(read_only);
    };
    add("/tranche-sim/endpoint", dir_ + "/endpoint", true);
    add("/run/tranche-sim/deep/endpoint", dir_ + "/endpoint", true);
    add("/run/tranche-sim/scratch", dir_ + "/scratch", false);
    add("/tranche-sim/one", dir_ + "/endpoint/control", true);  // a file
    return grpc::Status::OK;
  });
  EXPECT_EQ(exit_status(), 0) << log();
  const json container = pod_state("one")["containers"][0];
  EXPECT_EQ(container["output"], json::array({"endpoint", "endpoint", "read-only", "writable", "endpoint", "/dev/null",
                                              "/proc/self", "/usr", "4"}))
      << container;
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/scratch/y"));
  EXPECT_FALSE(std::filesystem::exists("/tranche-sim"));
  EXPECT_FALSE(std::filesystem::exists("/run/tranche-sim"));
}

}  // namespace
}  // namespace tranche::sim
