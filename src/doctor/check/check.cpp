#include "doctor/check/check.h"

#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/problem.h"
#include "base/text.h"
#include "os/files/files.h"
#include "os/process/threads.h"

namespace tranche::doctor {
namespace {

// The kernel's side: cgroups, whose processes can be seen, how many files may be open.

constexpr rlim_t kEnoughFiles = 16384;  // an MPS server with 48 clients on 8 GPUs wants about this many

void check_cgroups(const CheckOptions& options, Findings& findings) {
  const std::string folder = "/sys/fs/cgroup";
  if (std::filesystem::is_regular_file(status_of(under_root(options, folder + "/cgroup.controllers")))) {
    findings.pass("system.cgroups", folder, "cgroup version 2");
  } else if (is_folder(options, folder)) {
    findings.warn("system.cgroups", folder, "cgroup version 1: processes are attributed to pods by path only",
                  "boot with systemd.unified_cgroup_hierarchy=1; Kubernetes has deprecated version 1");
  } else {
    findings.warn("system.cgroups", folder, "no cgroup file system is visible", "mount it into this container");
  }
}

// In the host's PID namespace, and in no other, process 2 is the kernel's thread starter.
void check_pids(const CheckOptions& options, Findings& findings) {
  findings.pass_or(Verdict::kNote, first_line(under_root(options, "/proc/2/comm")) == "kthreadd", "system.pids",
                   "/proc", "the host's processes are visible",
                   "only this container's processes are visible: the agent cannot attribute clients to pods",
                   "set hostPID: true for the pod that enforces limits; other pods do not need it");
}

void check_files(Findings& findings) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  findings.pass_or(
      Verdict::kWarning, limit.rlim_max >= kEnoughFiles, "system.files", "RLIMIT_NOFILE", "enough files may be open",
      "only " + std::to_string(limit.rlim_max) + " files may be open: an MPS server with many clients needs more",
      "raise LimitNOFILE of the container runtime to " + std::to_string(kEnoughFiles) + " or more");
}

// Of the programs that run here, as they report it; of this process where none does.
void check_weight(const CheckOptions& options, Findings& findings) {
  std::map<std::string, std::string> problems;  // by program; "" = none
  for (const auto* status : {&options.agent_status, &options.mps_status}) {
    const auto document = json_of(*status);
    if (const auto& loop = map_at(document, "loop"); !loop.empty())
      problems["tranche " + text_at(document, "program")] = text_at(loop, "cpuProblem");
  }
  if (problems.empty()) problems["this process"] = os::own_cpu_weight_problem(under_root(options, ""));
  std::erase_if(problems, [](const auto& problem) { return problem.second.empty(); });
  for (const auto& [program, problem] : problems)
    findings.warn("system.cpu", program, problem, "set its container's CPU request to 100m or more");
}

}  // namespace

void check_system(const CheckOptions& options, Findings& findings) {
  check_cgroups(options, findings);
  check_pids(options, findings);
  check_files(findings);
  check_weight(options, findings);
}

void check_config(const CheckOptions& options, Findings& findings) {
  for (const Problem& problem : options.config_problems) {
    findings.add({problem.severity == Severity::kError ? Verdict::kFail : Verdict::kWarning, "config.file",
                  to_string(problem.place), problem.path.empty() ? problem.what : problem.path + ": " + problem.what,
                  problem.remedy});
  }
  if (options.config_problems.empty() && !options.config_path.empty()) {
    findings.pass("config.file", options.config_path, "the configuration is valid");
  }
}

Findings run_checks(const CheckOptions& options) {
  Findings findings;
  const gpu::Inventory node = check_driver(options, findings);
  check_devices(options, node, findings);
  check_mps_programs(options, findings);
  check_mps_root(options, findings);
  check_other_daemons(options, findings);
  check_kubelet(options, findings);
  check_dra(options, findings);
  check_runtime(options, findings);
  check_containers(options, findings);
  check_system(options, findings);
  check_config(options, findings);
  return findings;
}

std::string under_root(const CheckOptions& options, const std::string& path) {
  return options.root == "/" || options.root.empty() ? path : options.root + path;
}

std::string find_in_path(const CheckOptions& options, const std::string& name) {
  for (const std::string_view folder : split(options.search_path, ':')) {
    const std::string path = std::string(folder) + "/" + name;
    if (::access(under_root(options, path).c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::filesystem::file_status status_of(const std::string& real_path) {
  std::error_code unreadable;
  return std::filesystem::status(real_path, unreadable);
}

bool is_socket(const CheckOptions& options, const std::string& path) {
  return std::filesystem::is_socket(status_of(under_root(options, path)));
}

bool is_folder(const CheckOptions& options, const std::string& path) {
  return std::filesystem::is_directory(status_of(under_root(options, path)));
}

std::string first_line(const std::string& real_path) {
  const Result<std::string> text = os::read_file(real_path, 64 << 10);
  if (!text) return {};
  const std::vector<std::string_view> lines = lines_of(*text);
  return lines.empty() ? std::string() : std::string(trimmed(lines.front()));
}

}  // namespace tranche::doctor
