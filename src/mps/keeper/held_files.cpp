#include "mps/keeper/held_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/text.h"
#include "os/process/process.h"
#include "os/process/threads.h"

namespace tranche::mps {
namespace {

// A PyTorch process has 27 on one GPU, a JAX process 46 on two. With more, the rest of the GPUs' is not held: the
// driver may then wait at the death, but the neighbours are as safe (docs/internals/evidence/deaths.md).
constexpr std::size_t kMostHeld = 64;
constexpr std::size_t kMostOfGpus = 48;
constexpr std::size_t kClientsOfShare = 48;
constexpr const char* kShareIsFull =
    "the clients of its share, with those that died less than 5 s ago, have as many descriptors in the keeper as those "
    "of one share may have";
constexpr std::size_t kMostLookedAt = 4096;  // of its descriptors, and of its threads
constexpr unsigned kControlMinor = 255;      // /dev/nvidiactl
constexpr unsigned kPidfdThread = O_EXCL;    // PIDFD_THREAD of Linux 6.9

struct Found {
  int number = 0;
  DeviceKind kind = DeviceKind::kGpu;
  bool is_held = false;
};

// Of a file in `dir`, or, without a name, of `dir` itself. The kernel follows the link without the file system of the
// tenant: AT_STATX_DONT_SYNC asks no server.
std::optional<DeviceKind> kind_of(int dir, const char* name, const NvidiaDevices& devices) {
  constexpr int kHow = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;
  struct statx seen{};
  if (::statx(dir, name, kHow, STATX_TYPE, &seen) != 0) return std::nullopt;
  if (!S_ISCHR(seen.stx_mode)) return std::nullopt;
  return devices.kind(seen.stx_rdev_major, seen.stx_rdev_minor);
}

// 0: the process still has this file under this number; less than 0: unknown.
long compared(pid_t thread, int number, const os::Fd& file) {
  static const pid_t own = ::getpid();
  return ::syscall(SYS_kcmp, own, thread, KCMP_FILE, file.get(), number);
}

// `folder`: of the thread in /proc. nullopt: they cannot be listed.
std::optional<std::vector<Found>> files_of(const std::string& folder, pid_t thread, const NvidiaDevices& devices,
                                           const std::map<int, HeldFile>& held, Looked& looked) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir((folder + "/fd").c_str()), &::closedir);
  if (!dir) {
    looked.problem = "its descriptors cannot be listed: " + std::string(std::strerror(errno));
    return std::nullopt;
  }
  std::vector<Found> found;
  looked.looked_at = 0;
  for (const dirent* entry = ::readdir(dir.get()); entry != nullptr; entry = ::readdir(dir.get())) {
    const auto number = parse_unsigned(entry->d_name);
    if (!number) continue;
    if (++looked.looked_at > kMostLookedAt) {
      looked.problem = "it has more than " + std::to_string(kMostLookedAt) + " descriptors";
      break;
    }
    const int file = static_cast<int>(*number);
    const auto known = held.find(file);
    const long differs = known == held.end() ? 1 : compared(thread, file, known->second.file);
    if (differs == 0)
      found.push_back({file, known->second.kind, true});
    else if (const auto kind = kind_of(::dirfd(dir.get()), entry->d_name, devices))
      found.push_back({file, *kind, differs < 0});
  }
  // A thread that has exited lists none.
  if (looked.looked_at == 0) return std::nullopt;
  return found;
}

bool has_files(pid_t pid, pid_t thread) {
  std::error_code error;
  const std::filesystem::directory_iterator first(fmt::format("/proc/{}/task/{}/fd", pid, thread), error);
  return !error && first != std::filesystem::directory_iterator();
}

std::string why_not_duplicated(int error) {
  if (error == EPERM)
    return "its descriptors cannot be duplicated: the right SYS_PTRACE is missing, or a security module refuses";
  return "its descriptors cannot be duplicated: " + std::string(std::strerror(error));
}

// The lowest free number, which the kernel gives. Found out with a descriptor of ours, because one of the process could
// not be closed here.
std::size_t next_number(const os::Fd& pidfd) {
  const os::Fd next(::fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 0));
  return next ? static_cast<std::size_t>(next.get()) : most_open_files();
}

}  // namespace

std::size_t most_open_files() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::string why_no_more_files() {
  return "the keeper has as many descriptors as it may open (" + std::to_string(most_open_files()) +
         "): raise LimitNOFILE of the container runtime";
}

std::size_t most_of_share() {
  return std::min(most_open_files() / 4, kMostHeld * kClientsOfShare);
}

NvidiaDevices NvidiaDevices::parse(std::string_view proc_devices) {
  NvidiaDevices devices;
  for (auto line : lines_of(proc_devices)) {
    if (line.starts_with("Block devices")) break;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const auto space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto number = parse_unsigned(line.substr(0, space));
    const auto name = line.substr(space + 1);
    if (!number || *number > 0xfff || !name.starts_with("nvidia")) continue;
    const auto kind = name == "nvidia-uvm"                            ? DeviceKind::kUvm
                      : name == "nvidia" || name == "nvidia-frontend" ? DeviceKind::kGpu
                                                                      : DeviceKind::kCapability;
    // Some drivers register one number under several names.
    const auto [known, fresh] = devices.majors_.try_emplace(static_cast<unsigned>(*number), kind);
    if (!fresh && kind != DeviceKind::kCapability) known->second = kind;
  }
  return devices;
}

std::optional<DeviceKind> NvidiaDevices::kind(unsigned major, unsigned minor) const {
  const auto found = majors_.find(major);
  if (found == majors_.end()) return std::nullopt;
  if (found->second == DeviceKind::kGpu && minor == kControlMinor) return DeviceKind::kControl;
  return found->second;
}

Looked HeldFiles::look(pid_t pid, const os::Fd& pidfd, const NvidiaDevices& devices, std::size_t room) {
  Looked looked;
  looked.owner = pid;
  std::optional<std::vector<Found>> found;
  os::look_at_living_thread(pid, [&](const std::string& folder, pid_t thread) {
    looked.owner = thread;
    looked.problem.clear();
    found = files_of(folder, thread, devices, files_, looked);
    return found.has_value();
  });
  os::Fd of_thread;  // in place of the first one, which has no descriptors once it has exited
  if (looked.owner != pid) {
    of_thread = os::Fd(static_cast<int>(::syscall(SYS_pidfd_open, looked.owner, kPidfdThread)));
    if (!of_thread && errno == EINVAL)
      looked.problem = "its first thread has exited, and its descriptors are duplicated from Linux 6.9 on";
  }
  // The list may be that of another process with this pid.
  if (!found || os::has_ended(pidfd) || (looked.owner != pid && !of_thread)) return looked;
  for (auto held = files_.begin(); held != files_.end();) {
    const auto now = std::ranges::find(*found, held->first, &Found::number);
    const bool has = now != found->end() && now->is_held;
    if (!has) looked.dropped.push_back(std::move(held->second));
    held = has ? std::next(held) : files_.erase(held);
  }
  // What protects the neighbours comes first, in case that not all can be held.
  std::ranges::stable_sort(*found, std::ranges::greater(), &Found::kind);
  std::size_t next = 0;
  const std::size_t most = most_open_files();
  for (const auto& each : *found) {
    if (each.is_held) continue;
    if (each.kind < DeviceKind::kControl && files_.size() >= kMostOfGpus) break;
    if (files_.size() >= kMostHeld) {
      looked.problem = "it has more than " + std::to_string(kMostHeld) + " descriptors of nvidia-uvm and nvidiactl";
      break;
    }
    if (next == 0) next = next_number(pidfd);
    if (looked.added >= room || next + kFilesOfOurOwn > most) {
      looked.full = true;
      looked.problem = looked.added < room ? why_no_more_files() : kShareIsFull;
      break;
    }
    os::Fd file(static_cast<int>(::syscall(SYS_pidfd_getfd, (of_thread ? of_thread : pidfd).get(), each.number, 0)));
    if (!file && (errno == EBADF || errno == ESRCH)) continue;  // closed meanwhile
    if (!file) {
      looked.problem = why_not_duplicated(errno);
      break;
    }
    next = static_cast<std::size_t>(file.get()) + 1;
    const auto kind = kind_of(file.get(), "", devices);
    if (!kind) {
      looked.foreign = std::move(file);
      looked.problem = kExchanges;
      break;
    }
    files_.emplace(each.number, HeldFile{std::move(file), *kind});
    ++looked.added;
  }
  return looked;
}

std::size_t HeldFiles::uvm() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(files_, [](const auto& each) { return each.second.kind == DeviceKind::kUvm; }));
}

std::vector<HeldFile> HeldFiles::take() {
  std::vector<HeldFile> files;
  for (auto& [number, file] : std::exchange(files_, {})) files.push_back(std::move(file));
  return files;
}

std::string why_not_shared(pid_t pid, pid_t owner) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(fmt::format("/proc/{}/task", pid).c_str()), &::closedir);
  std::size_t looked_at = 0;
  for (const dirent* entry = nullptr; dir && (entry = ::readdir(dir.get())) != nullptr;) {
    const auto number = parse_unsigned(entry->d_name);
    if (!number) continue;
    if (++looked_at > kMostLookedAt) return "it has more than " + std::to_string(kMostLookedAt) + " threads";
    const auto thread = static_cast<pid_t>(*number);
    const bool is_other = ::syscall(SYS_kcmp, owner, thread, KCMP_FILES, 0, 0) > 0;
    // A thread that exits at this moment has none any more.
    if (is_other && has_files(pid, thread))
      return fmt::format("its threads do not share their descriptors: those of thread {} are not held", thread);
  }
  return {};
}

void close_in_order(std::vector<HeldFile>& files) {
  std::ranges::stable_sort(files, std::ranges::less(), &HeldFile::kind);
  for (auto& file : files) file.file.reset();
  files.clear();
}

}  // namespace tranche::mps
