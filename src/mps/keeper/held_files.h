#pragma once
// Duplicates of a process's descriptors of NVIDIA's devices. While another process has them, the driver does not tear
// down the process's GPU work in the harmful order of a process's end, so that its MPS neighbours survive its death
// (docs/internals/evidence/deaths.md). They are to be closed in the order of DeviceKind.
//
// Thread: any, one at a time for each HeldFiles. Only close_in_order() may block, because the driver waits up to 2.1 s
// for work that still runs, and the close of Looked::foreign.
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/loop/fd.h"

namespace tranche::mps {

enum class DeviceKind { kGpu, kCapability, kControl, kUvm };  // in the order in which they are closed

// Which character devices are NVIDIA's, by their numbers: a path in a container is the tenant's.
class NvidiaDevices {
 public:
  static NvidiaDevices parse(std::string_view proc_devices);  // the text of /proc/devices. Pure; fuzzed
  std::optional<DeviceKind> kind(unsigned major, unsigned minor) const;

 private:
  std::map<unsigned, DeviceKind> majors_;
};

struct HeldFile {
  os::Fd file;
  DeviceKind kind = DeviceKind::kGpu;
};

// Descriptors that this process may have open. Some stay free of held files, for sockets and for the looks.
std::size_t most_open_files();
constexpr std::size_t kFilesOfOurOwn = 64;
std::string why_no_more_files();
// Descriptors that the clients of one share may have here, those that have exited included: a quarter of all, and not
// more than its 48 clients may have.
std::size_t most_of_share();

inline constexpr const char* kExchanges = "it exchanges its descriptors while they are duplicated";

struct Looked {
  pid_t owner = 0;            // the thread that has the descriptors
  std::size_t looked_at = 0;  // its descriptors, whatever they are; each costs about a microsecond
  std::size_t added = 0;
  std::vector<HeldFile> dropped;  // the process has closed these
  os::Fd
      foreign;  // the process has put it in the place of a device meanwhile; its close takes as long as a tenant likes
  std::string problem;  // why what protects the neighbours is not all held; "" = it is
  bool full = false;    // there may be descriptors for the rest once other clients are released
};

class HeldFiles {
 public:
  // Duplicates what is new, at most `room` descriptors. A process whose descriptors cannot be listed any more keeps
  // what is held.
  Looked look(pid_t pid, const os::Fd& pidfd, const NvidiaDevices& devices, std::size_t room = most_of_share());
  std::size_t size() const { return files_.size(); }
  std::size_t uvm() const;
  std::vector<HeldFile> take();

 private:
  std::map<int, HeldFile> files_;  // by the number that it has in the process
};

// Why HeldFiles, which looks at the descriptors of one thread, does not see those of another; "" = all share theirs.
std::string why_not_shared(pid_t pid, pid_t owner);

void close_in_order(std::vector<HeldFile>& files);

}  // namespace tranche::mps
