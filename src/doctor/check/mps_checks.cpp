// MPS: the driver's programs, the directory that we would use, and daemons that others have started.
#include <unistd.h>

#include <memory>
#include <optional>
#include <set>

#include "base/text.h"
#include "doctor/check/check.h"
#include "os/files/files.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::check {
namespace {

constexpr const char* kOtherPipes = "/tmp/nvidia-mps";       // where a daemon listens by default
constexpr std::string_view kDaemonName = "nvidia-cuda-mps";  // the kernel keeps 15 characters of both programs' names

std::string find_program(const CheckOptions& options) {
  return options.mps_control.contains('/') ? options.mps_control : find_in_path(options, options.mps_control);
}

// In a container the driver's programs are below its mounted root, for a different container to run.
std::string find_in_driver_root(const CheckOptions& options) {
  if (options.driver_root == "/" || options.driver_root.empty()) return {};
  for (const char* folder : {"/usr/bin/", "/usr/local/bin/", "/usr/sbin/", "/bin/"}) {
    const std::string path = options.driver_root + folder + options.mps_control;
    if (::access(under_root(options, path).c_str(), X_OK) == 0) return path;
  }
  return {};
}

}  // namespace

void check_mps_programs(const CheckOptions& options, Findings& findings) {
  const std::string control = find_program(options);
  if (const std::string below = control.empty() ? find_in_driver_root(options) : ""; !below.empty())
    return findings.pass("mps.programs", below, "the MPS programs are there; they were not run");
  if (control.empty() || ::access(under_root(options, control).c_str(), X_OK) != 0)
    return findings.fail("mps.programs", "PATH",
                         in_quotes(options.mps_control) + " is not there: sharing by MPS cannot work",
                         "install the driver's compute utilities (package nvidia-compute-utils or nvidia-cuda-mps)");
  const std::string server = control.substr(0, control.rfind('/') + 1) + "nvidia-cuda-mps-server";
  if (::access(under_root(options, server).c_str(), X_OK) != 0)
    return findings.fail("mps.programs", server, "the control daemon is there but the server that it starts is not",
                         "install both from the same driver package");
  const Result<std::string> version = run_program({under_root(options, control), "-v"}, options.deadline);
  if (!version)
    return findings.fail("mps.programs", control, "the control daemon does not run: " + to_string(version.error()),
                         "see that it belongs to this driver and architecture");
  const auto lines = lines_of(trimmed(*version));  // a copyright follows
  const std::string said(lines.empty() ? "" : trimmed(lines.front()));
  findings.pass("mps.programs", control, "the MPS programs run (" + said + ")");
}

void check_other_daemons(const CheckOptions& options, Findings& findings) {
  if (is_socket(options, std::string(kOtherPipes) + "/control")) {
    findings.warn("mps.others", kOtherPipes, "another MPS control daemon uses, or has used, the default directory",
                  "stop it (`echo quit | nvidia-cuda-mps-control`): two servers on one GPU take turns at a "
                  "seventh of the speed");
  }
  std::set<std::string> pids;
  const std::string proc = under_root(options, "/proc");
  for (const auto& name : os::names_in(proc))
    if (parse_unsigned(name) && first_line(proc + "/" + name + "/comm") == kDaemonName) pids.insert(name);
  if (pids.empty()) return;
  findings.note("mps.others", "/proc", "MPS processes run on this node: " + join({pids.begin(), pids.end()}, ", "),
                "right if they are tranche's own (`tranche status` lists those); stop any others");
}

Result<std::string> run_program(const std::vector<std::string>& argv, Duration deadline) {
  TRY(const std::unique_ptr<os::Loop> loop, os::Loop::open());
  os::Command command;
  command.argv = argv;
  command.env = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}, {"LC_ALL", "C"}};
  command.kill_on_drop = true;
  std::string output;
  std::optional<os::ExitNote> note;
  TRY(const std::unique_ptr<os::Process> process,
      os::Process::start(
          *loop, command, [&output](const std::string& line) { output += (output.empty() ? "" : "\n") + line; },
          [&](os::ExitNote ended) {
            note = ended;
            loop->stop();
          }));
  loop->after(deadline, [&loop] { loop->stop(); });
  loop->run();
  if (!note) return fail(Kind::kTimeout, "it has not ended in time", argv.front());
  if (note->signalled || note->code != 0)
    return fail(Kind::kUnavailable, "it " + os::to_string(*note) + ": " + output, argv.front());
  return output;
}

}  // namespace tranche::check
