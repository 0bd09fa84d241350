#include "mps/endpoints/ending_containers.h"

#include <fmt/format.h>

#include <algorithm>

#include "mps/endpoints/ancestors.h"
#include "mps/endpoints/containers.h"
#include "os/log/log.h"
#include "os/process/threads.h"

namespace tranche::agent {

std::string EndingContainers::container_with(const host::ProcessRef& process) const {
  if (const auto noted = std::ranges::find(noted_, process, &FirstProcess::process); noted != noted_.end())
    return noted->container;
  return host::is_first_of_namespace(process.pid) ? container_of(process.pid) : std::string();
}

std::string EndingContainers::close_with(const host::ProcessRef& process) {
  const auto known = std::ranges::find(closed_, process, [](const Closed& each) { return each.first->ref(); });
  if (known != closed_.end()) return known->container;
  auto container = container_with(process);
  if (container.empty()) return {};
  auto watched = host::Process::adopt(loop_, process, [this, process](const host::ExitNote&) { exited(process); });
  if (!watched) {
    if (watched.error().kind != Kind::kNotFound)
      log::warning("container.unwatched", {{"container", container}, {"why", watched.error()}});
    return {};
  }
  log::info("container.ends", {{"container", container},
                               {"pid", process.pid},
                               {"why", "its first process is being ended, and the kernel ends all others with it"},
                               {"effect", "its clients are ended as well, and new ones are refused until then"}});
  closed_.push_back({container, *std::move(watched)});
  return container;
}

// By value: the callback that holds it goes with the process.
void EndingContainers::exited(host::ProcessRef process) {
  std::erase_if(closed_, [&](const Closed& each) { return each.first->ref() == process; });
}

bool EndingContainers::ends(const host::ProcessRef& first, int pid) {
  const auto pids = host::namespaced_pids(first.pid);
  if (!pids || pids->size() <= 2) return true;
  return pids->back() != 1 || is_below(pid, first.pid);
}

std::string EndingContainers::refuses(int pid) const {
  if (closed_.empty()) return {};
  Ancestors ancestors;
  const auto container = container_of(pid, ancestors);
  if (!container) return "its container is not known, and a container is being ended; start the program again";
  if (std::ranges::find(closed_, *container, &Closed::container) == closed_.end()) return {};
  return "the first process of its container is being ended; start the program again when the container has restarted";
}

}  // namespace tranche::agent
