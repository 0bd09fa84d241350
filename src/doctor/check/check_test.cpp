// The node doctor on fixture trees: what a healthy node looks like, and each way to break it.
#include "doctor/check/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ostream>

#include "config/parse/parse.h"
#include "doctor/finding_fixture.h"
#include "os/files/tree_fixture.h"
#include "os/socket/socket_fixture.h"

namespace tranche::doctor {

void PrintTo(const Finding& finding, std::ostream* out) {
  *out << to_string(finding.verdict) << " " << finding.id << ": " << finding.what << " (" << finding.about << ")";
}

}  // namespace tranche::doctor

namespace tranche::doctor {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Tree : public testing::Test {
 protected:
  Tree() {
    ::umask(0022);
    ::chmod(tree_.path().c_str(), 0755);
    options_.root = tree_.path();
  }
  void folder(const std::string& path, mode_t mode = 0755) const {
    tree_.directory(path);
    ::chmod(tree_.path(path).c_str(), mode);
  }
  void file(const std::string& path, const std::string& text, bool program = false) const {
    tree_.file(path, text, program);
  }
  void socket(const std::string& path, bool listens = false) {
    folder(path.substr(0, path.rfind('/')));
    os::Fd fd = os::socket_at(tree_.path(path), listens ? 1 : 0);
    if (listens) listening_.push_back(std::move(fd));
  }

  os::Tree tree_;
  std::vector<os::Fd> listening_;
  CheckOptions options_;
  Findings findings_;
};

TEST_F(Tree, KubeletThatListensIsFine) {
  socket("/var/lib/kubelet/device-plugins/kubelet.sock");
  socket("/var/lib/kubelet/pod-resources/kubelet.sock");
  check_kubelet(options_, findings_);
  EXPECT_THAT(findings_, Each(Field(&Finding::verdict, Verdict::kPass)));
  EXPECT_EQ(findings_.size(), 2u);
}

TEST_F(Tree, KubeletWithAnotherRootKeepsItsFolderOfDevicePlugins) {
  socket("/var/lib/kubelet/device-plugins/kubelet.sock");
  socket("/var/lib/k0s/kubelet/pod-resources/kubelet.sock");
  options_.kubelet_root = "/var/lib/k0s/kubelet";
  check_kubelet(options_, findings_);
  EXPECT_THAT(findings_, Each(Field(&Finding::verdict, Verdict::kPass)));
  EXPECT_EQ(findings_.size(), 2u);
}

TEST_F(Tree, KubeletAbsentStoppedOrSharedIsSaid) {
  check_kubelet(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "kubelet.plugins", "folder is not there")));
  findings_.clear();
  folder("/var/lib/kubelet/device-plugins");
  check_kubelet(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "kubelet.plugins", "not listening")));
  EXPECT_THAT(findings_, Contains(is(Verdict::kWarning, "kubelet.pod-resources")));
  findings_.clear();
  socket("/var/lib/kubelet/device-plugins/nvidia-old.sock");
  socket("/var/lib/kubelet/device-plugins/nvidia-gpu.sock", true);
  check_kubelet(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kWarning, "kubelet.others", "nvidia-gpu.sock")));
  EXPECT_THAT(findings_, Not(Contains(says(Verdict::kWarning, "kubelet.others", "nvidia-old.sock")))) << "left behind";
  findings_.clear();
  options_.agent_status = R"({"resources": [{"endpoint": "nvidia-gpu.sock"}]})";
  check_kubelet(options_, findings_);
  EXPECT_THAT(findings_, Not(Contains(says(Verdict::kWarning, "kubelet.others", "")))) << "it is the node agent's";
}

TEST_F(Tree, MpsProgramsBelowAMountedDriverRootAreSeenAndNotRun) {
  options_.search_path = "/usr/bin";
  options_.driver_root = "/driver-root";
  check_mps_programs(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(says(Verdict::kFail, "mps.programs", "is not there")));
  findings_.clear();
  folder("/driver-root/usr/bin");
  file("/driver-root/usr/bin/nvidia-cuda-mps-control", "", true);
  check_mps_programs(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(says(Verdict::kPass, "mps.programs", "not run")));
}

TEST_F(Tree, MpsRootThatDoesNotExistYetIsFineWhenItsParentsAre) {
  folder("/run/nvidia");
  check_mps_root(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(says(Verdict::kPass, "mps.root", "can be made")));
}

TEST_F(Tree, MpsRootBehindAClosedFolderLocksOutPodsThatAreNotRoot) {
  folder("/run/nvidia/mps");
  folder("/run/nvidia", 0700);
  check_mps_root(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(says(Verdict::kFail, "mps.root", "cannot pass")));
  EXPECT_EQ(findings_.front().about, "/run/nvidia");
}

TEST_F(Tree, MpsRootThatTenantsMayWriteIsAnError) {
  folder("/run/nvidia/mps", 01777);
  check_mps_root(options_, findings_);
  EXPECT_THAT(findings_,
              testing::ElementsAre(says(Verdict::kFail, "mps.root", "world-writable: any user could replace")));
}

TEST_F(Tree, MpsRootTooLongForSocketsIsAnErrorThatSaysByHowMuch) {
  options_.mps_root = "/" + std::string(52, 'x');  // 53 + 54 below + NUL = 108: the longest that fits
  check_mps_root(options_, findings_);
  EXPECT_THAT(findings_, Not(Contains(Field(&Finding::verdict, Verdict::kFail))));
  findings_.clear();
  options_.mps_root = "/" + std::string(55, 'x');
  check_mps_root(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "mps.root", "3 characters too long")));
}

TEST_F(Tree, MpsRootThatIsAFileIsAnError) {
  file("/run/nvidia/mps", "");
  check_mps_root(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "mps.root", "not a folder")));
}

TEST_F(Tree, MpsProgramsAreRunAndTheirVersionShown) {
  file("/usr/bin/nvidia-cuda-mps-control", "#!/bin/sh\necho CUDA MPS Control, Version 13.0\n", true);
  file("/usr/bin/nvidia-cuda-mps-server", "", true);
  check_mps_programs(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(says(Verdict::kPass, "mps.programs", "Version 13.0")));
}

TEST_F(Tree, MpsProgramsMissingBrokenOrHangingAreErrors) {
  check_mps_programs(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "mps.programs", "is not there")));
  findings_.clear();
  file("/usr/bin/nvidia-cuda-mps-control", "#!/bin/sh\nexit 3\n", true);
  check_mps_programs(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "mps.programs", "server that it starts is not")));
  findings_.clear();
  file("/usr/bin/nvidia-cuda-mps-server", "", true);
  check_mps_programs(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "mps.programs", "status 3")));
  findings_.clear();
  file("/usr/bin/nvidia-cuda-mps-control", "#!/bin/sh\nexec sleep 60\n", true);
  options_.deadline = std::chrono::milliseconds(50);
  check_mps_programs(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "mps.programs", "not ended in time")));
}

TEST_F(Tree, DaemonsOfOthersAreFoundByTheirSocketAndByTheirName) {
  socket("/tmp/nvidia-mps/control");
  file("/proc/4711/comm", "nvidia-cuda-mps\n");
  file("/proc/4712/comm", "bash\n");
  check_other_daemons(options_, findings_);
  EXPECT_THAT(findings_, Contains(is(Verdict::kWarning, "mps.others")));
  EXPECT_THAT(findings_, Contains(says(Verdict::kNote, "mps.others", "4711")));
  EXPECT_THAT(findings_, Not(Contains(says(Verdict::kNote, "mps.others", "4712"))));
}

TEST_F(Tree, RuntimeIsFoundByCdiOrByItsPrograms) {
  check_runtime(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(is(Verdict::kWarning, "runtime.gpu")));
  findings_.clear();
  file("/etc/cdi/other.yaml", "kind: example.com/device\n");
  check_runtime(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(is(Verdict::kWarning, "runtime.gpu")));
  findings_.clear();
  file("/var/run/cdi/nvidia.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n");
  check_runtime(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(says(Verdict::kPass, "runtime.gpu", "CDI")));
}

TEST_F(Tree, ToolkitWithoutCdiIsFine) {
  file("/usr/bin/nvidia-ctk", "", true);
  check_runtime(options_, findings_);
  EXPECT_THAT(findings_, testing::ElementsAre(says(Verdict::kPass, "runtime.gpu", "nvidia-ctk")));
}

TEST_F(Tree, ContainersNeedARuntimeThatReadsCdi) {
  check_containers(options_, findings_);
  EXPECT_THAT(findings_, Contains(is(Verdict::kNote, "runtime.socket")));
  socket("/run/containerd/containerd.sock");
  const auto judged = [&](const std::string& config) {
    file("/etc/containerd/config.toml", config);
    findings_.clear();
    check_containers(options_, findings_);
    for (const auto& finding : findings_)
      if (finding.id == "runtime.cdi") return finding.verdict;
    return Verdict::kFail;
  };
  EXPECT_EQ(judged("[plugins]\n  # enable_cdi = false\n  enable_cdi = true\n"), Verdict::kPass);
  EXPECT_EQ(judged("enable_cdi=false # by hand\n"), Verdict::kWarning);
  EXPECT_EQ(judged("version = 2\n"), Verdict::kNote);
  EXPECT_THAT(findings_, Contains(is(Verdict::kPass, "runtime.socket")));
}

TEST_F(Tree, SelinuxAndUserNamespacesAreRead) {
  const auto verdict_of = [&](const char* id) {
    findings_.clear();
    check_containers(options_, findings_);
    for (const auto& finding : findings_)
      if (finding.id == id) return finding.verdict;
    return Verdict::kFail;
  };
  EXPECT_EQ(verdict_of("system.selinux"), Verdict::kPass);
  file("/sys/fs/selinux/enforce", "1");
  EXPECT_EQ(verdict_of("system.selinux"), Verdict::kNote);
  file("/sys/fs/selinux/enforce", "0");
  EXPECT_EQ(verdict_of("system.selinux"), Verdict::kPass);
  file("/proc/self/uid_map", "         0     100000      65536\n");
  EXPECT_EQ(verdict_of("system.users"), Verdict::kWarning);
  file("/proc/self/uid_map", "         0          0 4294967295\n");
  EXPECT_EQ(verdict_of("system.users"), ::geteuid() == 0 ? Verdict::kPass : Verdict::kNote);
}

TEST_F(Tree, CgroupVersionAndPidNamespaceAreRead) {
  check_system(options_, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kWarning, "system.cgroups", "no cgroup")));
  EXPECT_THAT(findings_, Contains(is(Verdict::kNote, "system.pids")));
  findings_.clear();
  file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  file("/proc/2/comm", "kthreadd\n");
  check_system(options_, findings_);
  EXPECT_THAT(findings_, Contains(is(Verdict::kPass, "system.cgroups")));
  EXPECT_THAT(findings_, Contains(is(Verdict::kPass, "system.pids")));
}

// Promise: check: A control group that is too light for deadlines is named.
TEST_F(Tree, ACpuWeightThatIsTooLightIsThatOfTheProgramsThatRunOrOfTheCheck) {
  const auto light = [&] {
    findings_.clear();
    check_system(options_, findings_);
    std::vector<std::string> found;
    for (const auto& finding : findings_)
      if (finding.id == "system.cpu") found.push_back(finding.about + ": " + finding.what.substr(0, 40));
    return found;
  };
  EXPECT_THAT(light(), IsEmpty()) << "no control groups";
  file("/proc/self/cgroup", "0::/\n");
  EXPECT_THAT(light(), IsEmpty()) << "the root group";
  file("/sys/fs/cgroup/cpu.weight", "1\n");
  EXPECT_THAT(light(), ElementsAre("this process: its control group has cpu.weight 1, less"));
  options_.agent_status = R"({"program": "node", "loop": {"worstLatenessMs": 3, "cpuProblem": ""}})";
  EXPECT_THAT(light(), IsEmpty()) << "the group of what runs matters";
  options_.mps_status = R"({"program": "mps", "loop": {"worstLatenessMs": 900, "cpuProblem": "light"}})";
  EXPECT_THAT(light(), ElementsAre("tranche mps: light"));
}

TEST_F(Tree, DeviceNodesAreAskedForOnlyWhenThereAreGpus) {
  check_devices(options_, {}, findings_);
  EXPECT_THAT(findings_, IsEmpty());
  gpu::Inventory node;
  node.gpus.emplace_back().minor = 3;
  file("/dev/nvidiactl", "");
  check_devices(options_, node, findings_);
  EXPECT_THAT(findings_, Contains(says(Verdict::kFail, "device.node", "not a character device")));
  EXPECT_THAT(findings_,
              Contains(AllOf(says(Verdict::kFail, "device.node", "missing"), Field(&Finding::about, "/dev/nvidia3"))));
}

TEST_F(Tree, ConfigProblemsKeepTheirPlace) {
  options_.config_path = "config.yaml";
  options_.config_problems =
      config::parse("sharing:\n  mps:\n    resources: [{name: gpu, replicas: four}]\nfoo: 1\n", options_.config_path)
          .problems;
  check_config(options_, findings_);
  EXPECT_THAT(findings_, ElementsAre(is(Verdict::kFail, "config.file"), is(Verdict::kWarning, "config.file")));
  EXPECT_THAT(findings_.front().about, HasSubstr("config.yaml:3:"));
  findings_.clear();
  options_.config_problems.clear();
  check_config(options_, findings_);
  EXPECT_THAT(findings_, ElementsAre(is(Verdict::kPass, "config.file")));
  findings_.clear();
  options_.config_path.clear();
  check_config(options_, findings_);
  EXPECT_THAT(findings_, IsEmpty()) << "no configuration, nothing to say";
}

TEST_F(Tree, EveryProblemHasARemedyAndEveryFineFindingHasNone) {
  options_.mps_root = "relative";
  for (const Finding& finding : run_checks(options_)) {
    EXPECT_EQ(finding.remedy.empty(), finding.verdict == Verdict::kPass) << finding.id << ": " << finding.what;
    EXPECT_FALSE(finding.what.empty()) << finding.id;
  }
}

}  // namespace
}  // namespace tranche::doctor
