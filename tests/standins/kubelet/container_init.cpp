// The start of a container: a child of sim-kubelet, which runs sim-kubelet's own program until it executes the
// container's command.
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text.h"
#include "standins/kubelet/launch.h"
#include "standins/kubelet/mount_tree.h"

namespace tranche::sim {
namespace {

int give_up(const std::string& why) {
  (void)!::write(kStartErrorFd, why.data(), why.size());
  return 128;
}

}  // namespace

int container_init(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  // The command must not inherit any descriptor but the error pipe, which closes when the command starts.
  ::close_range(kStartErrorFd, ~0u, CLOSE_RANGE_CLOEXEC);
  const auto parent = words.size() > 2 ? parse_unsigned(words[2]) : std::nullopt;
  if (!parent) return give_up("started without a parent");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (static_cast<std::uint64_t>(::getppid()) != *parent) return give_up("the parent has gone");

  bool own_namespace = false;
  std::vector<BindMount> mounts;
  std::size_t i = 3;
  for (; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "--namespace") {
      own_namespace = true;
    } else if ((words[i] == "--mount" || words[i] == "--mount-ro") && i + 2 < words.size()) {
      mounts.push_back({words[i + 1], words[i + 2], words[i] == "--mount-ro"});
      i += 2;
    } else {
      return give_up("unexpected argument " + in_quotes(words[i]));
    }
  }
  if (i + 1 >= words.size()) return give_up("no command");
  if (own_namespace) {
    if (const Status entered = enter_mount_namespace(mounts); !entered) return give_up(to_string(entered.error()));
  }
  ::execvp(argv[i + 1], argv + i + 1);
  return give_up(to_string(error_from_errno(errno, "cannot run", words[i + 1])));
}

}  // namespace tranche::sim
