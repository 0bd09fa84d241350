#include "os/loop/timers.h"

#include <algorithm>
#include <utility>

namespace tranche::os {

void Timers::add(Id id, MonoTime deadline, std::function<void()> turn) {
  turns_.emplace(id, std::move(turn));
  heap_.push_back({deadline, id});
  std::ranges::push_heap(heap_, later);
}

bool Timers::cancel(Id id) {
  const auto found = turns_.find(id);
  if (found == turns_.end()) return false;
  const auto turn = std::move(found->second);  // destroyed last: its captures may call this object
  turns_.erase(found);
  // Most timeouts are cancelled long before they are due: do not let their entries accumulate.
  constexpr std::size_t kCleanupSize = 64;
  if (heap_.size() > kCleanupSize && heap_.size() > 2 * turns_.size()) {
    std::erase_if(heap_, [this](const Entry& entry) { return !turns_.contains(entry.id); });
    std::ranges::make_heap(heap_, later);
  }
  return true;
}

std::optional<MonoTime> Timers::earliest() {
  drop_cancelled();
  if (heap_.empty()) return std::nullopt;
  return heap_.front().deadline;
}

std::function<void()> Timers::take_due(MonoTime now, Id limit) {
  drop_cancelled();
  if (heap_.empty() || heap_.front().deadline > now || heap_.front().id >= limit) return {};
  const Id id = heap_.front().id;
  std::ranges::pop_heap(heap_, later);
  heap_.pop_back();
  auto node = turns_.extract(id);
  return std::move(node.mapped());
}

void Timers::clear() {
  heap_.clear();
  const auto dropped = std::exchange(turns_, {});
}

void Timers::drop_cancelled() {
  while (!heap_.empty() && !turns_.contains(heap_.front().id)) {
    std::ranges::pop_heap(heap_, later);
    heap_.pop_back();
  }
}

}  // namespace tranche::os
