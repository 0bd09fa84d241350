#include "mps/pool/pool_dirs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr const char* kLongestName = "control_privileged";

constexpr const char* kSelinux = "/sys/fs/selinux/enforce";
constexpr const char* kLabel = "security.selinux";
constexpr std::string_view kContainerType = "container_file_t";
constexpr mode_t kPipeMode = 0755;  // clients of every user enter; only the owner writes

constexpr int kMostLooks = 8;                  // at one server that has mapped neither kind
constexpr std::size_t kLongestMaps = 8 << 20;  // of a process with a CUDA context

std::string label_of(const std::string& path) {
  char text[256];
  const ssize_t size = ::getxattr(path.c_str(), kLabel, text, sizeof text);
  if (size <= 0) return {};
  std::string label(text, static_cast<std::size_t>(size));
  while (!label.empty() && label.back() == '\0') label.pop_back();
  return label;
}

// "" = correct, or corrected.
std::string check_label(const std::string& path) {
  const std::string label = label_of(path);
  const std::string wanted = for_containers(label);
  if (wanted.empty()) return path + " has no SELinux label: containers may be kept from the daemon's socket";
  if (label == wanted) return {};
  if (::setxattr(path.c_str(), kLabel, wanted.c_str(), wanted.size() + 1, 0) == 0) return {};
  return fmt::format(
      "{} has the SELinux label {} and cannot be given {} ({}): containers may be kept from the daemon's "
      "socket; write: chcon -t {} {}",
      path, label, wanted, std::strerror(errno), kContainerType, path);
}

// The first directory above `path` that other users cannot enter; "" = none.
std::string closed_parent(const std::string& path) {
  for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    struct stat status{};
    if (::stat(parent.c_str(), &status) == 0 && (status.st_mode & S_IXOTH) == 0) return parent;
  }
  return {};
}

}  // namespace

Status make_pool_dirs(const grants::Paths& paths, const std::string& pool) {
  const std::string longest = paths.pipe(pool) + "/" + kLongestName;
  if (longest.size() > kLongestSocketPath) {
    return fail(
        Kind::kInvalid,
        fmt::format("the path of the daemon's socket would have {} characters and may have {}; choose a shorter "
                    "MPS root",
                    longest.size(), kLongestSocketPath),
        longest);
  }
  for (const auto& path : {paths.pipe(pool), paths.log(pool), paths.endpoints(pool)})
    TRY_STATUS(os::Dir::create(path, 0755));
  return {};
}

Status set_reach(const std::string& mps_root, bool servers_of_users) {
  const mode_t mode = servers_of_users ? 0711 : 0700;
  TRY(const os::Dir root, os::Dir::create(mps_root, 0755));
  TRY(const os::Dir pools, root.make_subdir("pools", mode));
  // An existing directory may be from a version that let every user enter.
  const os::Fd fd(::openat(pools.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && ::fchmod(fd.get(), mode) == 0) return {};
  return fail_errno("cannot close the pools' directory to other users", pools.path());
}

// Removes whatever is at their names: the daemon creates them.
Status remove_stale_sockets(const std::string& pipe) {
  TRY(const auto directory, os::Dir::open(pipe));
  for (const char* name : {"control", kLongestName, "log", "nvidia-cuda-mps-control.pid", "control_lock"})
    TRY_STATUS(directory.remove_tree(name));
  return {};
}

// --- before a daemon starts ------------------------------------------------------------------------------------------

Status judge_owner(const std::string& path, uid_t owner, uid_t ours) {
  if (owner == ours || owner == 0) return {};
  return fail(Kind::kDenied,
              fmt::format("the pipe directory belongs to user {}, who could put a socket of theirs in the daemon's "
                          "place; remove it, or give it back: chown {} {}",
                          owner, ours, path),
              path);
}

std::string judge_open_files(unsigned long limit) {
  if (limit >= kFewOpenFiles) return {};
  return fmt::format(
      "the daemon may open {} files only (less than {}): with many clients, shared memory cannot be made; "
      "raise LimitNOFILE of the container runtime, or ulimit -n",
      limit, kFewOpenFiles);
}

std::string for_containers(const std::string& label) {
  auto fields = split(label, ':');
  if (fields.size() < 4) return {};
  fields[2] = kContainerType;
  return fmt::format("{}", fmt::join(fields, ":"));
}

Result<std::vector<std::string>> check_before_start(const std::string& pipe, const std::string& endpoints,
                                                    bool servers_of_users) {
  struct stat status{};
  if (::stat(pipe.c_str(), &status) != 0) return fail_errno("cannot look at the pipe directory", pipe);
  TRY_STATUS(judge_owner(pipe, status.st_uid, ::geteuid()));
  std::vector<std::string> notes;
  if ((status.st_mode & 07777) != kPipeMode && ::chmod(pipe.c_str(), kPipeMode) != 0)
    return fail_errno("cannot give the pipe directory the mode 0755", pipe);
  if (const auto closed = servers_of_users ? closed_parent(pipe) : std::string(); !closed.empty()) {
    notes.push_back(fmt::format(
        "{} lets no other users pass: MPS servers of their clients do not reach the daemon; write: chmod o+x {}",
        closed, closed));
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    if (auto note = judge_open_files(files.rlim_cur); !note.empty()) notes.push_back(std::move(note));
  }
  if (::access(kSelinux, F_OK) == 0) {
    for (const auto& path : {pipe, endpoints}) {
      if (auto note = check_label(path); !note.empty()) notes.push_back(std::move(note));
    }
  }
  return notes;
}

// --- the memory that servers share with clients ----------------------------------------------------------------------

SharedMemory shared_memory_in(std::string_view maps) {
  SharedMemory found = SharedMemory::kUnknown;
  for (const auto line : lines_of(maps)) {
    const auto fields = words_of(line);  // start-end perms offset dev inode path
    const auto path = fields.size() > 5 ? fields[5] : std::string_view();
    if (path.starts_with("/dev/shm/cuda.shm.")) return SharedMemory::kNamed;  // one such file is enough to need it
    if (path.starts_with("/memfd:mps.shm.")) found = SharedMemory::kAnonymous;
  }
  return found;
}

bool ServerMemory::look(pid_t server) {
  if (server == 0) return false;
  if (std::exchange(looked_at_, server) != server) looks_ = 0;
  if (looks_ == kMostLooks) return false;
  const auto maps = os::read_file(fmt::format("/proc/{}/maps", server), kLongestMaps);
  const auto found = maps ? shared_memory_in(*maps) : SharedMemory::kUnknown;
  looks_ = found == SharedMemory::kUnknown ? looks_ + 1 : kMostLooks;
  if (found == SharedMemory::kUnknown) return false;
  std::error_code ignored;
  const bool same = std::filesystem::equivalent(fmt::format("/proc/{}/root/dev/shm", server), folder_, ignored);
  const bool changed = found != where_ || same != is_folder_;
  where_ = found;
  is_folder_ = same;
  return changed;
}

// Containers can write there without limit unless it is a file system of its own with a fixed size.
bool ServerMemory::is_bounded() const {
  struct stat folder{};
  struct stat above{};
  return ::stat(folder_.c_str(), &folder) != 0 || ::stat((folder_ + "/..").c_str(), &above) != 0 ||
         folder.st_dev != above.st_dev;
}

std::string ServerMemory::problem() const {
  if (where_ != SharedMemory::kNamed) return {};
  if (is_folder_ && is_bounded()) return {};
  if (is_folder_)
    return fmt::format(
        "containers get {} as their /dev/shm, and it is no file system of its own: one container can fill the node's; "
        "mount one with a size there, for example: mount -t tmpfs -o size=1g,mode=1777 tmpfs {}",
        folder_, folder_);
  return fmt::format(
      "this driver's MPS server shares memory with its clients through files in /dev/shm, and containers do not see "
      "those: mount {} at /dev/shm of tranche mps",
      folder_);
}

}  // namespace tranche::mps
