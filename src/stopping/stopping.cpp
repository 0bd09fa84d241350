#include "stopping/stopping.h"

#include <algorithm>
#include <set>

namespace tranche::stopping {
namespace {

constexpr int kAttempts = 2;
constexpr Duration kShortestDeadline = std::chrono::milliseconds(200);

struct When {
  MonoTime at;
  std::string reason;
};

// Nothing: not as things are.
std::optional<When> when_to_drain(const StoppingPod& pod, const Holding& holding, MonoTime kill_at, MonoTime now,
                                  const Settings& settings) {
  const std::size_t clients = holding.clients.value_or(1);
  if (clients == 0) return std::nullopt;
  if (pod.gone) return When{now, "the pod was deleted by force"};
  if (!holding.survives && !holding.hooked) return When{now, "the pod is being deleted"};
  const Duration margin = std::max(settings.margin_least, settings.margin_per_client * static_cast<long>(clients));
  return When{kill_at - margin, "the pod's grace ends"};
}

Drain drain_of(const StoppingPod& pod, const Holding& holding, const Entry& entry, std::string reason, MonoTime now,
               const Settings& settings) {
  const Duration left = std::max<Duration>(entry.kill_at - now, kShortestDeadline);
  return {pod.uid,      pod.pod_namespace, pod.name,          holding.container,
          holding.pool, holding.grant,     std::move(reason), std::min(left, settings.patience)};
}

void look_at(Step& out, Entry& entry, const StoppingPod& pod, const Holding& holding, MonoTime now,
             const Settings& settings) {
  entry.kill_at = std::min(entry.kill_at, pod.gone ? now : pod.seen + pod.grace);
  if (entry.phase != Phase::kWaiting) return;
  auto when = when_to_drain(pod, holding, entry.kill_at, now, settings);
  if (!when) return;
  if (when->at > now) {
    out.next = out.next ? std::min(*out.next, when->at) : when->at;
    return;
  }
  entry.phase = Phase::kDraining;
  ++entry.attempts;
  out.now.push_back(drain_of(pod, holding, entry, std::move(when->reason), now, settings));
}

}  // namespace

Step step(State& state, std::span<const StoppingPod> pods, MonoTime now, const Settings& settings) {
  Step out;
  std::set<Key> known;
  for (const auto& pod : pods) {
    for (const auto& holding : pod.holdings) {
      const Key key{pod.uid, holding.grant};
      known.insert(key);
      look_at(out, state.try_emplace(key, Entry{.kill_at = MonoTime::max()}).first->second, pod, holding, now,
              settings);
    }
  }
  std::erase_if(state, [&known](const auto& entry) { return !known.contains(entry.first); });
  return out;
}

void ended(State& state, const Key& key, bool drained) {
  const auto it = state.find(key);
  if (it == state.end() || it->second.phase != Phase::kDraining) return;
  auto& entry = it->second;
  entry.phase = drained ? Phase::kDrained : entry.attempts < kAttempts ? Phase::kWaiting : Phase::kFailed;
}

}  // namespace tranche::stopping
