#include "termination/stopping.h"

#include <algorithm>
#include <set>

namespace tranche::stopping {
namespace {

constexpr int kAttempts = 2;
constexpr Duration kToExit = std::chrono::milliseconds(500);        // for killed processes to leave the GPU
constexpr Duration kBeforeWaking = std::chrono::milliseconds(300);  // of a preStop sleep

class Stepping {
 public:
  Stepping(Step& out, const StoppingPod& pod, const Holding& holding, Entry& entry, MonoTime now)
      : out_(out), pod_(pod), holding_(holding), entry_(entry), now_(now) {}

  void look(const Settings& settings) {
    entry_.kill_at = std::min(entry_.kill_at, pod_.gone ? now_ : pod_.seen + pod_.grace);
    if (holding_.clients.value_or(1) == 0) return;
    const MonoTime last_at = pod_.gone ? now_ : entry_.kill_at - margin(settings);
    if (last_at <= now_)
      return ask(entry_.last, false, pod_.gone ? "the pod was deleted by force" : "the pod's grace ends");
    if (entry_.last.phase == Phase::kWaiting) wake(last_at);
    if (holding_.hooked || entry_.first.phase != Phase::kWaiting) return;
    const MonoTime first_at = holding_.sleeps > kBeforeWaking ? pod_.seen + holding_.sleeps - kBeforeWaking : now_;
    if (first_at > now_) return wake(first_at);
    ask(entry_.first, true, "the pod is being deleted",
        !holding_.own_hook && entry_.first.attempts == 0 && last_at - now_ >= 2 * settings.stop_patience);
  }

 private:
  void wake(MonoTime at) { out_.next = out_.next ? std::min(*out_.next, at) : at; }

  void ask(Request& request, bool spare, const char* reason, bool pause = false) {
    if (request.phase != Phase::kWaiting) return;
    request.phase = Phase::kRunning;
    ++request.attempts;
    out_.now.push_back({pod_.uid, pod_.pod_namespace, pod_.name, holding_.container, holding_.pool, holding_.grant,
                        reason, spare, holding_.stop_signal, pause});
  }

  Step& out_;
  const StoppingPod& pod_;
  const Holding& holding_;
  Entry& entry_;
  MonoTime now_;
};

}  // namespace

Duration margin(const Settings& settings) {
  return settings.stop_patience + kToExit;
}

Step step(State& state, std::span<const StoppingPod> pods, MonoTime now, const Settings& settings) {
  Step out;
  std::set<Key> known;
  for (const auto& pod : pods) {
    for (const auto& holding : pod.holdings) {
      const Key key{pod.uid, holding.grant};
      known.insert(key);
      Entry& entry = state.try_emplace(key, Entry{MonoTime::max(), {}, {}}).first->second;
      Stepping(out, pod, holding, entry, now).look(settings);
    }
  }
  std::erase_if(state, [&known](const auto& entry) { return !known.contains(entry.first); });
  return out;
}

void ended(State& state, const Key& key, bool spare, bool done) {
  const auto it = state.find(key);
  if (it == state.end()) return;
  Request& request = spare ? it->second.first : it->second.last;
  if (request.phase != Phase::kRunning) return;
  request.phase = done ? Phase::kDone : request.attempts < kAttempts ? Phase::kWaiting : Phase::kFailed;
}

}  // namespace tranche::stopping
