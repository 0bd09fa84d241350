#pragma once
// When the clients of a pod that is being deleted are to be ended through MPS, so that no signal finds one with work in
// flight (that kills its neighbours on the GPU). The pod watch leads SIGTERM by some 19 ms and SIGKILL by the whole
// grace, so (docs/stopping.md):
//
//   container with our preStop hook, or proven to survive the stop signal ── shortly before the SIGKILL
//   any other ── now
//   no clients ── nothing, until there are some
//
// Facts go in whole at every step, and what they say now counts: steps may come late, twice or in any order. Each
// container's grant is drained once, and once more when that failed. Nothing here holds a deletion up. Pure.
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"

namespace tranche::stopping {

struct Holding {  // what one container of the pod holds
  std::string container = {};
  std::string pool = {};
  std::string grant = {};
  std::optional<std::size_t> clients = {};  // absent: nobody knows, which counts as one
  bool survives = false;                    // its stop signal, proven (survival.h)
  bool hooked = false;                      // its preStop hook is ours and drains before the signal
};

struct StoppingPod {
  std::string uid;
  std::string pod_namespace;
  std::string name;
  Duration grace{};   // deletionGracePeriodSeconds as told at `seen`
  MonoTime seen{};    // when that was received: deletionTimestamp is rounded, this is not
  bool gone = false;  // deleted by force: the object is away, its containers are about to be killed
  std::vector<Holding> holdings;
};

struct Settings {
  Duration margin_least = std::chrono::milliseconds(500);  // between a late drain and the SIGKILL
  Duration margin_per_client = std::chrono::milliseconds(50);
  Duration patience = std::chrono::seconds(2);  // for a drain
};

struct Drain {
  std::string uid;
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string pool;
  std::string grant;
  std::string reason;   // for logs, events, and whoever executes it
  Duration deadline{};  // for the drain
  friend bool operator==(const Drain&, const Drain&) = default;
};

enum class Phase { kWaiting, kDraining, kDrained, kFailed };

struct Entry {  // of one container's grant
  MonoTime kill_at{};
  Phase phase = Phase::kWaiting;
  int attempts = 0;
};

using Key = std::pair<std::string, std::string>;  // pod uid, grant
using State = std::map<Key, Entry>;

struct Step {
  std::vector<Drain> now;
  std::optional<MonoTime> next;  // when to step again, if nothing happens before
};

// `pods`: every pod of the node that is being deleted, with what it holds now. What is not in it any more is forgotten.
Step step(State& state, std::span<const StoppingPod> pods, MonoTime now, const Settings& settings = {});

// A drain that was asked for has ended. Of one that is not known (any more), nothing.
void ended(State& state, const Key& key, bool drained);

}  // namespace tranche::stopping
