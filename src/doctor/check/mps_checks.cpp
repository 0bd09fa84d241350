// MPS: the driver's programs, the directory that we would use, and daemons that others have started.
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <set>

#include "base/text.h"
#include "doctor/check/check.h"
#include "os/files/files.h"
#include "os/process/process.h"

namespace tranche::doctor {
namespace {

// The directory below which the MPS sockets will live: every way in which one that looks fine fails later.
struct Remote {
  long magic;
  const char* name;
};
constexpr std::array kRemote = std::to_array<Remote>({{0x6969, "NFS"},
                                                      {0x65735546, "FUSE"},
                                                      {0xFF534D42, "CIFS"},
                                                      {0xFE534D42, "SMB"},
                                                      {0x00C36400, "Ceph"},
                                                      {0x01021997, "9p"},
                                                      {0x0BD00BD0, "Lustre"}});

// The deepest existing folder on the way to `path`.
std::string existing_part(const CheckOptions& options, std::string path) {
  while (path.size() > 1 && status_of(under_root(options, path)).type() == std::filesystem::file_type::not_found)
    path = os::parts_of(path).directory;
  return path;
}

bool check_length(const CheckOptions& options, Findings& findings) {
  // <root>/pools/gpu-<8>/endpoints/<16>/control, and the socket address ends with a NUL.
  constexpr std::size_t kBelow = sizeof("/pools/gpu-01234567/endpoints/0123456789abcdef/control");
  constexpr std::size_t kLimit = sizeof(sockaddr_un::sun_path);
  if (options.mps_root.size() + kBelow <= kLimit) return true;
  findings.fail("mps.root", options.mps_root,
                "the path is " + std::to_string(options.mps_root.size() + kBelow - kLimit) +
                    " characters too long for the sockets below it",
                "choose a shorter one, such as /run/nvidia/mps");
  return false;
}

bool check_filesystem(const CheckOptions& options, const std::string& there, Findings& findings) {
  struct statfs status{};
  if (::statfs(under_root(options, there).c_str(), &status) != 0) return true;
  for (const Remote& remote : kRemote) {
    if (static_cast<long>(static_cast<unsigned>(status.f_type)) != remote.magic) continue;
    findings.fail("mps.root", there,
                  std::string("it lies on ") + remote.name + ": sockets and hard links need a local file system",
                  "choose a folder on tmpfs or a local disk, such as /run/nvidia/mps");
    return false;
  }
  return true;
}

// The server drops to its client's user: each folder must let others pass. And none may be theirs to change.
bool check_folders(const CheckOptions& options, const std::string& there, Findings& findings) {
  bool fine = true;
  for (std::size_t end = 0; end != std::string::npos && there != "/";) {
    end = there.find('/', end + 1);
    const std::string folder = there.substr(0, end);
    struct stat status{};
    if (::stat(under_root(options, folder).c_str(), &status) != 0) continue;
    if (!S_ISDIR(status.st_mode)) {
      findings.fail("mps.root", folder, "this is not a folder", "remove it, or choose another root");
      return false;
    }
    if ((status.st_mode & S_IXOTH) == 0) {
      findings.fail(
          "mps.root", folder,
          "other users cannot pass this folder: pods that do not run as root will hang or fail with error 805",
          "chmod o+x " + folder);
      fine = false;
    }
    const bool sticky = (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & S_IWOTH) != 0 && (!sticky || folder == there)) {
      findings.fail("mps.root", folder, "world-writable: any user could replace the daemon's socket",
                    "chmod o-w " + folder + ", or choose another root");
      fine = false;
    }
  }
  return fine;
}

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

// What a program printed. kTimeout: it had not ended by then, and is killed; kUnavailable: its status is not 0.
Result<std::string> run_program(const std::vector<std::string>& argv, Duration deadline) {
  os::Command command;
  command.argv = argv;
  command.env = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}, {"LC_ALL", "C"}};
  TRY(const auto ended, os::run_to_end(command, deadline));
  const auto& [note, output] = ended;
  if (note.signalled || note.code != 0)
    return fail(Kind::kUnavailable, "it " + os::to_string(note) + ": " + std::string(trimmed(output)), argv.front());
  return output;
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

void check_mps_root(const CheckOptions& options, Findings& findings) {
  if (!options.mps_root.starts_with('/'))
    return findings.fail("mps.root", options.mps_root, "it must be an absolute path",
                         "write for example /run/nvidia/mps");
  const std::string there = existing_part(options, options.mps_root);
  const bool length = check_length(options, findings);
  const bool filesystem = check_filesystem(options, there, findings);
  const bool folders = check_folders(options, there, findings);
  if (!length || !filesystem || !folders) return;
  findings.pass("mps.root", options.mps_root,
                there == options.mps_root ? "the MPS root is usable" : "the MPS root can be made");
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

}  // namespace tranche::doctor
