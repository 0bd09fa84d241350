#include "mps/endpoints/heirs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "mps/endpoints/containers.h"
#include "os/clock/clock.h"
#include "os/log/log.h"
#include "os/process/threads.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kMostHeirs = 16;  // of one remnant
constexpr unsigned kTriesBeforeThePod = 2;
// Of processor time: a tenant chooses how many descriptors its processes have, and how long the names of their files
// are. 65,536 usual descriptors take 0.2 s.
constexpr Duration kLongestLookAtOne = std::chrono::milliseconds(250);
constexpr Duration kLongestLook = std::chrono::seconds(1);
constexpr unsigned kLinksBetween = 32;  // looks at the clock

class Search {
 public:
  explicit Search(const HeirsAsked& asked) : asked_(asked) {
    for (const auto& remnant : asked.remnants) {
      found_.of[remnant.pid];
      if (remnant.container.empty()) continue;
      scopes_.insert(scope_of(remnant.container));
      for (const auto& channel : remnant.channels) owner_.emplace(channel, remnant.pid);
    }
  }

  FoundHeirs run() {
    if (!scopes_.empty()) for_each_process([this](int pid) { look_at(pid); });
    for (const auto& remnant : asked_.remnants) {
      auto& found = found_.of[remnant.pid];
      if (remnant.tries == 0 && !found.empty() && found.size() <= kMostHeirs) continue;
      if (const auto whole = whole_containers(remnant); !whole.empty()) {
        found.clear();
        for (const auto& each : whole) found.push_back(each.process);
        found_.first.insert(found_.first.end(), whole.begin(), whole.end());
      } else if (found.size() > kMostHeirs) {
        found.resize(kMostHeirs);
      }
    }
    return std::move(found_);
  }

 private:
  // The containers in which a remnant's heirs are searched for: those of its pod, if that is known, or its own.
  static std::string scope_of(const std::string& container) {
    const auto pod = pod_in_name(container);
    return pod.empty() ? container : pod;
  }

  void look_at(int pid) {
    if (pid == ::getpid() || asked_.own.contains(pid)) return;
    const auto ref = os::process_ref(pid);
    if (!ref) return;
    const auto container = container_of(pid, ancestors_).value_or(std::string());
    const auto scope = scope_of(container);
    if (!scopes_.contains(scope)) return;
    auto& first = first_[container];
    if (first.pid == 0 || ref->start_ticks < first.start_ticks) first = *ref;
    for (const int remnant : kept_by(pid))
      if (scope_of(container_of_remnant(remnant)) == scope) found_.of[remnant].push_back(*ref);
  }

  std::set<int> kept_by(int pid) {
    std::set<int> remnants;
    if (owner_.empty()) return remnants;
    const os::CpuBudget time(std::min(kLongestLookAtOne, left_));
    look_at_descriptors(pid, [&, read = 0U](std::string_view channel) mutable {
      const auto [from, to] = owner_.equal_range(channel);
      for (auto it = from; it != to; ++it) remnants.insert(it->second);
      return ++read % kLinksBetween != 0 || !time.spent();
    });
    left_ -= std::min(left_, time.used());
    return remnants;
  }

  const std::string& container_of_remnant(int pid) const {
    return std::ranges::find(asked_.remnants, pid, &Remnant::pid)->container;
  }

  std::vector<FirstProcess> whole_containers(const Remnant& remnant) const {
    const bool of_pod = remnant.tries >= kTriesBeforeThePod && !pod_in_name(remnant.container).empty();
    std::vector<FirstProcess> all;
    for (const auto& [container, first] : first_) {
      const bool own = container == remnant.container && first.start_ticks <= remnant.started;
      if (own || (of_pod && scope_of(container) == scope_of(remnant.container))) all.push_back({container, first});
    }
    return all;
  }

  const HeirsAsked& asked_;
  FoundHeirs found_;
  std::set<std::string> scopes_;
  std::multimap<std::string, int, std::less<>> owner_;  // of a channel
  std::map<std::string, os::ProcessRef> first_;         // of each container: the process that started first
  Duration left_ = kLongestLook;
  // The limit is never reached: each process is inspected once.
  Ancestors ancestors_{"/proc", std::numeric_limits<std::size_t>::max(), Duration::max()};
};

}  // namespace

FoundHeirs find_heirs(const HeirsAsked& asked) {
  return Search(asked).run();
}

// --- containers that end -------------------------------------------------------------------------------------------

std::string EndingContainers::container_with(const os::ProcessRef& process) const {
  if (const auto noted = std::ranges::find(noted_, process, &FirstProcess::process); noted != noted_.end())
    return noted->container;
  return os::is_first_of_namespace(process.pid) ? container_of(process.pid) : std::string();
}

std::string EndingContainers::close_with(const os::ProcessRef& process) {
  const auto known = std::ranges::find(closed_, process, [](const Closed& each) { return each.first->ref(); });
  if (known != closed_.end()) return known->container;
  auto container = container_with(process);
  if (container.empty()) return {};
  auto watched = os::Process::adopt(loop_, process, [this, process](const os::ExitNote&) { exited(process); });
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
void EndingContainers::exited(os::ProcessRef process) {
  std::erase_if(closed_, [&](const Closed& each) { return each.first->ref() == process; });
}

bool EndingContainers::ends(const os::ProcessRef& first, int pid) {
  const auto pids = os::namespaced_pids(first.pid);
  if (pids.size() <= 2) return true;
  return pids.back() != 1 || is_below(pid, first.pid);
}

std::string EndingContainers::refuses(int pid) const {
  if (closed_.empty()) return {};
  Ancestors ancestors;
  const auto container = container_of(pid, ancestors);
  if (!container) return "its container is not known, and a container is being ended; start the program again";
  if (std::ranges::find(closed_, *container, &Closed::container) == closed_.end()) return {};
  return "the first process of its container is being ended; start the program again when the container has restarted";
}

}  // namespace tranche::mps
