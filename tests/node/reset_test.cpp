// A node after `tranche reset` is the node before our programs were started.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "node/label_bed.h"
#include "os/files/files.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NodeReset : public LabelBed {
 protected:
  Program& reset(Strings more = {}) {
    Strings argv{tranche(), "reset", "--cdi-root", in("cdi"), "--daemon-cgroup", "none"};
    const Strings paths = paths_of_node();
    argv.insert(argv.end(), paths.begin(), paths.end());
    argv.insert(argv.end(), more.begin(), more.end());
    return start(std::move(argv));
  }
  // Every path of the node with what it is, but the stand-ins' own state.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
      const std::string path = entry.path().string().substr(scratch_.path().size());
      if (path.starts_with("/node") || path == "/config.yaml") continue;
      struct stat status{};
      if (::lstat(entry.path().c_str(), &status) != 0) continue;
      all[path] = std::to_string(status.st_mode);
      // What goes away meanwhile, or is longer than is read, is reported by its name and mode; so are logs, which
      // living daemons go on writing.
      if (S_ISREG(status.st_mode) && !path.ends_with(".log"))
        all[path] += os::read_file(entry.path().string()).value_or(std::string());
    }
    return all;
  }
  // How many GPUs take one process at a time: what MPS changes.
  std::size_t exclusive_gpus() {
    Program& doctor = start({tranche(), "check", "--json"});
    EXPECT_GE(finish(doctor), 0);
    return count(doctor.out(), "compute mode EXCLUSIVE_PROCESS");
  }
  // Everything of ours is there: daemons, endpoints, CDI specs, journals.
  void use(int signal_for_mps) {
    ASSERT_NO_FATAL_FAILURE(make_node(2));
    write("config.yaml", sharing("mps", 4));
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    before_ = files();
    ASSERT_EQ(exclusive_gpus(), 0u);
    start_mps();
    start_node({"--device-list-strategy", "envvar,cdi-annotations", "--cdi-root", in("cdi")});
    ASSERT_TRUE(until_healthy(8));
    admitted(kubelet(), "tenant", 1);
    kubelet().remove_pod("default/tenant");
    stop(*program("node"), SIGTERM, 0);
    stop(*program("mps"), signal_for_mps, signal_for_mps == SIGKILL ? 128 + SIGKILL : 0);
  }

  std::map<std::string, std::string> before_;
};

// Promise: reset: A reset leaves the node as it was found and can be repeated.
TEST_F(NodeReset, LeavesTheNodeAsItWasFoundAndDoneTwiceIsDoneOnce) {
  use(SIGKILL);  // its daemons run on, the compute modes are changed
  ASSERT_NE(files(), before_);
  ASSERT_EQ(exclusive_gpus(), 2u);
  Program& dry = reset({"--dry-run"});
  ASSERT_EQ(finish(dry), 0) << dry.err();
  EXPECT_THAT(dry.out(), AllOf(HasSubstr("would end the daemon of gpu-"), HasSubstr("its compute mode DEFAULT back"),
                               HasSubstr("would remove of MPS " + in("mps/pools")), Not(HasSubstr("removed "))));
  ASSERT_NE(files(), before_) << "a dry run removes nothing";

  Program& first = reset();
  EXPECT_EQ(finish(first), 0) << first.out() << first.err();
  EXPECT_EQ(files(), before_) << first.out();
  EXPECT_EQ(exclusive_gpus(), 0u);
  Program& second = reset();
  EXPECT_EQ(finish(second), 0) << second.err();
  EXPECT_THAT(second.out(), HasSubstr("nothing of ours is left"));
  EXPECT_EQ(files(), before_);
}

TEST_F(NodeReset, EndsTheDaemonsThroughTrancheMpsWhileThatRuns) {
  start_all(1, 4);
  ASSERT_EQ(exclusive_gpus(), 1u);
  stop(*program("node"), SIGTERM, 0);
  Program& run = reset();
  EXPECT_EQ(finish(run), 0) << run.out() << run.err();
  EXPECT_EQ(finish(*program("mps")), 0);
  EXPECT_EQ(exclusive_gpus(), 0u);
  EXPECT_FALSE(fs::exists(in("mps")));
}

// A file that the node agent or tranche mps learns to keep stands in docs/reference/paths.md, and then here.
TEST_F(NodeReset, TakesEveryFileAwayThatTheDocumentOfPathsNames) {
  const auto document = os::read_file(std::string(std::getenv("TRANCHE_SOURCE")) + "/docs/reference/paths.md");
  ASSERT_TRUE(document);
  const std::regex names("`<(run-dir|mps-root)>/([a-z.-]+)(/?)");
  int made = 0;
  for (std::sregex_iterator it(document->begin(), document->end(), names), end; it != end; ++it, ++made) {
    const std::string name = (*it)[2];
    const std::string path = in((*it)[1] == "run-dir" ? "run/" : "mps/") + name;
    fs::create_directories(fs::path(path).parent_path());
    if (name != "shm") std::ofstream(path + ".unreadable") << "";  // put aside by an earlier start
    if (name == "compute-mode.json") continue;                     // given back, not taken away
    if ((*it)[3] == "/" || name == "shm" || name == "driver-libraries") {
      fs::create_directories(path);
    } else {
      std::ofstream(path) << "";
    }
  }
  std::ofstream(config_path_) << "version: v1\n";
  ASSERT_GE(made, 12) << "the document is not read as it is written";
  Program& run = reset({"--force"});
  EXPECT_EQ(finish(run), 0) << run.out() << run.err();
  EXPECT_FALSE(fs::exists(in("run"))) << run.out();
  EXPECT_FALSE(fs::exists(in("mps"))) << run.out();
}

// Promise: reset: A reset removes what Dynamic Resource Allocation left, and leaves other drivers' files alone.
TEST_F(NodeReset, RemovesWhatClaimsLeft) {
  ASSERT_NO_FATAL_FAILURE(make_node(1));
  write("config.yaml", "version: v1\ndra: {devices: all, driverName: gpu.example.com}\n");
  for (const char* folder : {"cdi", "plugins_registry"}) fs::create_directories(in(folder));
  write("cdi/gpu.other.com-claim_1.json", "{}");
  write("plugins_registry/gpu.other.com-reg.sock", "");
  fs::remove_all(in("run"));
  const auto found = files();
  write("cdi/gpu.example.com-claim_1.json", "{}");
  // Under a name from before.
  write("cdi/gpu.former.com-claim_2.json", R"({"cdiVersion":"0.3.0","kind":"gpu.former.com/claim",
"devices":[{"name":"a","containerEdits":{"mounts":[{"hostPath":"/mps/pools/gpu-1/endpoints/0011223344556677",
"containerPath":"/run/tranche/mps"}]}}]})");
  write("plugins_registry/gpu.former.com-reg.sock", "");
  write("plugins_registry/gpu.example.com-reg.sock", "");
  Program& run = reset({"--force"});
  EXPECT_EQ(finish(run), 0) << run.out() << run.err();
  EXPECT_EQ(files(), found) << run.out();
}

TEST_F(NodeReset, OfAConfigurationThatCannotBeReadChangesNothingAndSaysWhatToGiveInstead) {
  fs::create_directories(in("mps/pools"));
  config_path_ = in("gone.yaml");
  Program& run = reset({"--force"});
  EXPECT_EQ(finish(run), 1);
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("gone.yaml"), HasSubstr("leave out --config-file"), HasSubstr("Nothing was changed")));
  EXPECT_TRUE(fs::exists(in("mps/pools")));
}

// Promise: reset: A reset is refused while a pod holds a GPU and the pod is named.
TEST_F(NodeReset, IsRefusedWhileAPodHoldsAGpuAndNamesIt) {
  start_all(1, 4);
  const auto grant = admitted(kubelet(), "trainer", 2);
  Program& tenant = start_cuda(grant, {"--hold"});
  ASSERT_EQ(attached(tenant)["event"], "attached");
  Program& while_running = reset();
  EXPECT_EQ(finish(while_running), 1);
  EXPECT_THAT(while_running.err(), HasSubstr("tranche node runs here"));
  stop(*program("node"), SIGTERM, 0);
  const auto before = files();
  Program& refused = reset();
  EXPECT_EQ(finish(refused), 1);
  EXPECT_THAT(refused.err(), AllOf(HasSubstr("default/trainer"), HasSubstr("2 of nvidia.com/gpu"),
                                   HasSubstr(std::to_string(tenant.pid())), HasSubstr("--force")));
  EXPECT_EQ(files(), before);
  EXPECT_TRUE(tenant.running());
  Program& forced = reset({"--force"});
  EXPECT_EQ(finish(forced), 0) << forced.out() << forced.err();
  EXPECT_FALSE(fs::exists(in("mps")));
}

// Promise: reset: A reset touches no foreign file.
TEST_F(NodeReset, TouchesNothingOfAnybodyElse) {
  use(SIGTERM);
  fs::create_directories(in("cdi"));
  for (const char* name : {"cdi/nvidia.yaml", "run/other", "plugins/other.sock", "mps/mine"}) {
    fs::create_directories(fs::path(in(name)).parent_path());
    std::ofstream(in(name)) << name;
  }
  Program& run = reset();
  EXPECT_EQ(finish(run), 0) << run.out() << run.err();
  for (const char* name : {"cdi/nvidia.yaml", "run/other", "plugins/other.sock", "mps/mine"})
    EXPECT_TRUE(fs::exists(in(name))) << name;
  EXPECT_FALSE(fs::exists(in("mps/pools")));
}

TEST_F(NodeReset, LeavesADirectoryThatSomebodyHasMounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounts need root";
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  fs::create_directories(in("run"));
  ASSERT_EQ(::mount("tmpfs", in("run").c_str(), "tmpfs", 0, "size=64k"), 0);
  Program& run = reset();
  EXPECT_EQ(finish(run), 0) << run.err();
  EXPECT_THAT(run.out(), Not(HasSubstr(in("run"))));
  ASSERT_EQ(::umount(in("run").c_str()), 0);
  Program& again = reset();
  EXPECT_EQ(finish(again), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("the directory " + in("run")));
}

// Promise: reset: A reset takes our labels off the node and no others.
TEST_F(NodeReset, TakesOurLabelsOffTheNodeAndNobodyElses) {
  api_->put(kNodes, "n1", R"({"metadata":{"labels":{"kubernetes.io/os":"linux","nvidia.com/gpu.count":"2",
      "nvidia.com/gpu.deploy.x":"true","theirs":"1"},"annotations":{"tranche.io/labels":"nvidia.com/gpu.count"}}})");
  write("config.yaml", sharing("mps", 4));
  const Strings cluster{"--node-name", "n1", "--kubeconfig", in("kubeconfig")};
  Strings dry = cluster;
  dry.emplace_back("--dry-run");
  Program& dry_run = reset(dry);
  EXPECT_EQ(finish(dry_run), 0) << dry_run.err();
  EXPECT_THAT(dry_run.out(), HasSubstr("nvidia.com/gpu.count"));
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"].size(), 4u);
  Program& run = reset(cluster);
  EXPECT_EQ(finish(run), 0) << run.out() << run.err();
  const Json metadata = object(kNodes, "n1")["metadata"];
  EXPECT_EQ(metadata["labels"],
            Json({{"kubernetes.io/os", "linux"}, {"nvidia.com/gpu.deploy.x", "true"}, {"theirs", "1"}}));
  EXPECT_FALSE(metadata.contains("annotations") && metadata["annotations"].contains("tranche.io/labels"));
}

}  // namespace
}  // namespace tranche::e2e
