#include "mps/daemon/daemon_home.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "gpu/platform/platform.h"
#include "os/files/files.h"

namespace tranche::mps {
namespace {

bool is_folder_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// From here to enter_cgroup(): only system calls, because these functions run in the child before exec.

// A cpuset cgroup of version 1 accepts no process until it has processors and memory nodes: copies its parent's.
void inherit(int dir, const char* file, const char* parents) {
  char have[2] = {};
  const int own = ::openat(dir, file, O_RDWR | O_CLOEXEC);
  if (own < 0) return;
  if (::read(own, have, sizeof have) > 0 && have[0] != '\n') {
    ::close(own);
    return;
  }
  char text[4096];
  const int from = ::openat(dir, parents, O_RDONLY | O_CLOEXEC);
  const ssize_t length = from < 0 ? 0 : ::read(from, text, sizeof text);
  if (length > 0) (void)!::pwrite(own, text, static_cast<std::size_t>(length), 0);
  if (from >= 0) ::close(from);
  ::close(own);
}

// "…/tranche" and "…/tranche/gpu-3f2a1b4c".
bool enter_cgroup(const std::string& parent, const std::string& cgroup) {
  int procs = -1;
  for (const char* level : {parent.c_str(), cgroup.c_str()}) {
    if (::mkdir(level, 0755) != 0 && errno != EEXIST) return false;
    const int dir = ::open(level, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return false;
    inherit(dir, "cpuset.cpus", "../cpuset.cpus");
    inherit(dir, "cpuset.mems", "../cpuset.mems");
    if (level == cgroup.c_str()) procs = ::openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    ::close(dir);
  }
  if (procs < 0) return false;
  const bool in = ::write(procs, "0\n", 2) == 2;  // 0 = the calling process
  ::close(procs);
  return in;
}

// Invalid if it is our own namespace.
Result<os::Fd> other_namespace(const DaemonHome& home, const char* name) {
  const std::string init = "/proc/" + std::to_string(home.host_pid) + "/ns/" + name;
  if (os::lead_to_one_file(init, std::string("/proc/self/ns/") + name)) return os::Fd();
  os::Fd opened(::open(init.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return fail_errno("cannot open the host's namespace", init);
  return opened;
}

std::vector<std::string> cgroups_of(const DaemonHome& home, const std::string& pool) {
  if (home.cgroup == kNoCgroup) return {};
  if (!home.cgroup.empty()) return {home.cgroup + "/" + pool};
  return daemon_cgroups(os::read_file("/proc/self/cgroup").value_or(""), kCgroupRoot, pool);
}

}  // namespace

Status check_home(const DaemonHome& home) {
  if (!home.host) return {};
  if (::getpid() == 1)
    return fail(
        Kind::kUnsupported,
        "--daemon-home host: this program is process 1 of its own process namespace, whose processes all end with "
        "it; give the pod hostPID: true");
  for (const char* name : {"mnt", "cgroup"}) {
    if (const auto opened = other_namespace(home, name); !opened) {
      return std::unexpected(within(opened.error(),
                                    "--daemon-home host needs hostPID: true and a privileged container (CAP_SYS_ADMIN, "
                                    "CAP_SYS_PTRACE)"));
    }
  }
  return {};
}

std::string program_at_home(const DaemonHome& home, const std::string& path) {
  const std::string& here = home.driver_root_here;
  if (!home.host || here.empty() || here == "/" || !path.starts_with(here + "/")) return path;
  return os::under_root(home.driver_root, path.substr(here.size()));
}

std::map<std::string, std::string> environment_at_home(const DaemonHome& home,
                                                       const std::map<std::string, std::string>& env) {
  auto there = env;
  if (!home.host) return there;
  // Ours names the container's folders.
  there["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  there.erase("LD_LIBRARY_PATH");
  // Never the root's own folders: they hold another C library (link_driver_libraries()).
  if (home.driver_root != "/" && !home.driver_root.empty())
    there["LD_LIBRARY_PATH"] = home.mps_root + "/" + kHostsDriverLibraries;
  return there;
}

std::vector<std::string> daemon_cgroups(std::string_view self, const std::string& root, const std::string& pool) {
  std::vector<std::string> hierarchies;
  bool unified = false;
  for (const auto line : split(self, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 3 || !parse_unsigned(fields[0])) continue;
    std::string_view name = fields[1];
    if (name.empty()) {
      unified = true;
      continue;
    }
    if (name.starts_with("name=")) name.remove_prefix(5);
    if (is_folder_name(name)) hierarchies.emplace_back(name);
  }
  if (unified) hierarchies.emplace_back(hierarchies.empty() ? "" : "unified");
  std::vector<std::string> dirs;
  for (const auto& name : hierarchies) dirs.push_back(root + (name.empty() ? "" : "/" + name) + "/tranche/" + pool);
  return dirs;
}

Result<std::unique_ptr<os::Process>> launch_at_home(os::Loop& loop, const DaemonHome& home, const std::string& pool,
                                                    os::Command what, std::function<void(os::ExitNote)> on_exit) {
  if (!home.host) return os::Process::start(loop, what, std::move(on_exit));
  TRY(const os::Fd mounts, other_namespace(home, "mnt"));
  TRY(const os::Fd cgroups, other_namespace(home, "cgroup"));
  auto& steps = what.before_exec;
  steps.push_back({"cannot give the daemon a session of its own", "", [] { return ::setsid() >= 0; }});
  if (cgroups)
    steps.push_back({"cannot enter the host's cgroup namespace", "",
                     [fd = cgroups.get()] { return ::setns(fd, CLONE_NEWCGROUP) == 0; }});
  if (mounts)
    steps.push_back({"cannot enter the host's mount namespace (the container needs CAP_SYS_ADMIN)", "",
                     [fd = mounts.get()] { return ::setns(fd, CLONE_NEWNS) == 0; }});
  for (const auto& cgroup : cgroups_of(home, pool))
    steps.push_back({"cannot put the daemon into a cgroup of its own", cgroup,
                     [parent = cgroup.substr(0, cgroup.rfind('/')), cgroup] { return enter_cgroup(parent, cgroup); }});
  return os::Process::start(loop, what, std::move(on_exit));
}

// --- the driver's libraries ------------------------------------------------------------------------------------------

namespace {

// Name → path; of two files with the same name, the first folder's counts.
std::map<std::string, std::string> libraries_below(const std::string& root) {
  std::map<std::string, std::string> found;
  std::vector<std::string> folders(gpu::kLibraryFolders.begin(), gpu::kLibraryFolders.end());
  folders.emplace_back("/usr/local/nvidia/lib64");
  for (const auto& folder : folders)
    for (const auto& name : os::names_in(root + folder))
      if (is_driver_library(name)) found.emplace(name, root + folder + "/" + name);
  return found;
}

}  // namespace

bool is_driver_library(const std::string& name) {
  const bool drivers =
      name.starts_with("libcuda.") || name.starts_with("libcudadebugger.") || name.starts_with("libnvidia-");
  return drivers && name.find(".so") != std::string::npos;
}

Result<std::string> link_driver_libraries(const std::string& driver_root, const std::string& folder,
                                          const std::string& named) {
  const std::string root = os::under_root(driver_root, "");
  if (root.empty()) return std::string();
  const auto libraries = libraries_below(root);
  if (libraries.empty()) return std::string();
  TRY(const auto dir, os::Dir::create(folder, 0755));
  TRY(const auto there, dir.list());
  for (const auto& name : there)
    if (!libraries.contains(name)) TRY_STATUS(dir.remove(name));
  for (const auto& [name, place] : libraries) {
    const std::string path = folder + "/" + name;
    const std::string target = named + place.substr(root.size());
    if (const auto leads = os::read_link(path); leads && *leads == target) continue;
    TRY_STATUS(os::put_link(target, path));
  }
  return folder;
}

std::string library_path(const std::string& folder, const std::string& there) {
  if (folder.empty() || there.empty()) return folder + there;
  return folder + ":" + there;
}

}  // namespace tranche::mps
