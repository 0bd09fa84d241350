#include "programs/config_manager/find_reader.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/text.h"
#include "containers/attribution.h"
#include "os/files/files.h"
#include "os/files/links.h"
#include "os/loop/fd.h"
#include "os/process/process.h"

namespace tranche::agent {
namespace {

constexpr std::size_t kLongestName = 15;  // of a process, in the kernel
constexpr std::size_t kLongestMountTable = std::size_t{8} << 20;

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// Of a process in the same pod only: reading the command line of any other could block for as long as its owner likes.
bool has_name(pid_t pid, std::string_view wanted) {
  const std::string proc = "/proc/" + std::to_string(pid);
  const auto words = host::read_file(proc + "/cmdline");
  if (!words || words->empty()) return false;  // a kernel thread, or a process that has just exited
  const auto argv0 = words->substr(0, words->find('\0'));
  return is_called(wanted, argv0, host::read_link(proc + "/exe").value_or(""));
}

// The folder and file system that a process sees at that path.
std::optional<containers::MountedDirectory> folder_of(const std::string& process, const std::string& folder) {
  const auto mounts = host::read_file("/proc/" + process + "/mountinfo", kLongestMountTable);
  if (!mounts) return std::nullopt;
  return containers::mounted_at(*mounts, folder);
}

// By the kernel's record of the process's name and executable, which the process chooses. Only the mount table of a
// process with this name is read, because the kernel can need seconds to write one.
bool seems_called(std::string_view wanted, pid_t pid) {
  const auto sight = host::look_at_process(pid);
  const auto program = host::read_link("/proc/" + std::to_string(pid) + "/exe").value_or("");
  return is_called(wanted, "", program) || (sight && sight->name == last_part(wanted).substr(0, kLongestName));
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  const auto proc = host::Dir::open("/proc");
  const auto names = proc ? proc->list() : std::unexpected(proc.error());
  if (!names) return pids;
  for (const auto& name : *names)
    if (const auto pid = parse_unsigned(name); pid && *pid <= 0x7fffffff) pids.push_back(static_cast<pid_t>(*pid));
  std::ranges::sort(pids);
  return pids;
}

}  // namespace

bool is_called(std::string_view wanted, std::string_view argv0, std::string_view program) {
  const auto name = last_part(wanted);
  return !name.empty() && (last_part(argv0) == name || last_part(program) == name);
}

Result<pid_t> signal_reader(const std::string& wanted, const std::string& folder, int signal) {
  const auto ours = folder_of("self", folder);
  std::size_t elsewhere = 0;
  for (const pid_t pid : all_processes()) {
    if (pid == ::getpid() || !seems_called(wanted, pid)) continue;
    const host::Fd held(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!ours || folder_of(std::to_string(pid), folder) != ours) {
      ++elsewhere;
      continue;
    }
    if (!held || !has_name(pid, wanted)) continue;
    // While the process is there, its pidfd refers to the one that was examined.
    if (::syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0) == 0) return pid;
    if (errno != ESRCH)
      return std::unexpected(error_from_errno(errno, "cannot signal process " + std::to_string(pid), wanted));
  }
  std::string what = "no process of that name reads " + folder;
  if (elsewhere > 0) what += "; " + std::to_string(elsewhere) + " of it do not see that folder: another pod's";
  return fail(Kind::kNotFound, what, wanted);
}

}  // namespace tranche::agent
