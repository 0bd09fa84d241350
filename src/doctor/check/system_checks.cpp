// The kernel's side: cgroups, whose processes can be seen, how many files may be open. And the configuration.
#include <sys/resource.h>

#include <algorithm>

#include "base/problem.h"
#include "doctor/check/checks.h"
#include "os/files/files.h"

namespace tranche::check {
namespace {

constexpr rlim_t kEnoughFiles = 16384;  // an MPS server with 48 clients on 8 GPUs wants about this many

void check_cgroups(const CheckOptions& options, Findings& findings) {
  const std::string folder = "/sys/fs/cgroup";
  if (kind_of_path(under_root(options, folder + "/cgroup.controllers")) == PathKind::kFile) {
    findings.push_back({Verdict::kPass, "system.cgroups", "cgroup version 2", folder, ""});
  } else if (kind_of_path(under_root(options, folder)) == PathKind::kDirectory) {
    findings.push_back({Verdict::kWarning, "system.cgroups",
                        "cgroup version 1: processes are attributed to pods by path only", folder,
                        "boot with systemd.unified_cgroup_hierarchy=1; Kubernetes is leaving version 1 behind"});
  } else {
    findings.push_back({Verdict::kWarning, "system.cgroups", "no cgroup file system is visible", folder,
                        "mount it into this container"});
  }
}

// In the host's PID namespace, and in no other, process 2 is the kernel's thread starter.
void check_pids(const CheckOptions& options, Findings& findings) {
  if (first_line(under_root(options, "/proc/2/comm")) == "kthreadd") {
    findings.push_back({Verdict::kPass, "system.pids", "the host's processes are visible", "/proc", ""});
  } else {
    findings.push_back({Verdict::kNote, "system.pids",
                        "only this container's processes are visible: the agent cannot attribute clients to pods",
                        "/proc", "set hostPID: true for the part that guards limits; the others need it not"});
  }
}

void check_files(Findings& findings) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_max < kEnoughFiles) {
    findings.push_back(
        {Verdict::kWarning, "system.files",
         "only " + std::to_string(limit.rlim_max) + " files may be open: an MPS server with many clients needs more",
         "RLIMIT_NOFILE",
         "raise LimitNOFILE of the container runtime to " + std::to_string(kEnoughFiles) + " or more"});
  } else {
    findings.push_back({Verdict::kPass, "system.files", "enough files may be open", "RLIMIT_NOFILE", ""});
  }
}

}  // namespace

void check_system(const CheckOptions& options, Findings& findings) {
  check_cgroups(options, findings);
  check_pids(options, findings);
  check_files(findings);
}

void check_config(const CheckOptions& options, Findings& findings) {
  for (const Problem& problem : options.config_problems) {
    findings.push_back({problem.severity == Severity::kError ? Verdict::kFail : Verdict::kWarning, "config.file",
                        problem.path.empty() ? problem.what : problem.path + ": " + problem.what,
                        to_string(problem.place), problem.remedy});
  }
  if (options.config_problems.empty() && !options.config_path.empty()) {
    findings.push_back({Verdict::kPass, "config.file", "the configuration is valid", options.config_path, ""});
  }
}

}  // namespace tranche::check
