#pragma once
// Private to Relay: processes that have exited, under whose pids the relay completes the exchange of a client
// that has exited. The relay keeps some, because a tenant may use up all pids of the node for a moment. Loop thread
// only.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "os/process/process.h"

namespace tranche::host {

class ExitedChildren {
 public:
  ExitedChildren() { refill({}); }
  // With a pid that is not known. Absent: no process could be started, and none is left.
  std::optional<ExitedChild> take(const std::function<bool(int pid)>& is_known) {
    std::erase_if(kept_, [&](const ExitedChild& each) { return is_known(each.pid()); });
    refill(is_known);
    if (kept_.empty()) return std::nullopt;
    ExitedChild child = std::move(kept_.back());
    kept_.pop_back();
    return child;
  }

 private:
  static constexpr std::size_t kKept = 4;
  static constexpr std::size_t kMostKnown = 128;

  // Children with a known pid are reaped last, because the kernel gives each process the next free pid.
  void refill(const std::function<bool(int pid)>& is_known) {
    std::vector<ExitedChild> known;
    while (kept_.size() < kKept && known.size() < kMostKnown) {
      auto child = ExitedChild::start();
      if (!child) return;
      (is_known && is_known(child->pid()) ? known : kept_).push_back(*std::move(child));
    }
  }

  std::vector<ExitedChild> kept_;
};

}  // namespace tranche::host
