#pragma once
// When the clients of a pod that is being deleted are ended, so that no signal finds one with GPU work in flight (that
// kills its neighbours). The pod watch leads SIGTERM by some 19 ms and SIGKILL by the whole grace, so each container's
// grant is asked for twice (docs/guide/stop-and-change.md):
//
//   now             clients that the stop signal would kill; `tranche mps` decides which, and spares the others. Not
//   for
//                   a container with our preStop hook, which asks by itself when the user's own hook has ended; after a
//                   preStop sleep, shortly before its end.
//   margin() before the SIGKILL, or when the pod was deleted by force
//                   all that are left.
//   no clients      nothing, until there are some
//
// Facts go in whole at every step, and what they say now counts: steps may come late, twice or in any order. What
// failed is tried once more. Nothing here holds a deletion up. Pure.
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
  std::optional<std::size_t> clients = {};  // absent: not known, which counts as one
  bool hooked = false;                      // its preStop hook is ours
  Duration sleeps{};                        // its preStop hook is a sleep of this length
  int stop_signal = 0;                      // 0: not known
};

struct StoppingPod {
  std::string uid;
  std::string pod_namespace;
  std::string name;
  Duration grace{};   // deletionGracePeriodSeconds as reported at `seen`
  MonoTime seen{};    // when that was received: deletionTimestamp is rounded, this is not
  bool gone = false;  // deleted by force: the object is away, its containers are about to be killed
  std::vector<Holding> holdings;
};

struct Settings {
  Duration stop_patience = std::chrono::seconds(2);  // sharing.mps.stopPatience
};
// Between the second request and the SIGKILL: the work of stopped clients runs out, and they exit.
Duration margin(const Settings& settings);

struct Drain {
  std::string uid;
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string pool;
  std::string grant;
  std::string reason;   // for logs, events, and whoever executes it
  bool spare = false;   // clients that the stop signal does not kill
  int stop_signal = 0;  // 0: not known
  friend bool operator==(const Drain&, const Drain&) = default;
};

enum class Phase { kWaiting, kRunning, kDone, kFailed };

struct Request {
  Phase phase = Phase::kWaiting;
  int attempts = 0;
};

struct Entry {  // of one container's grant
  MonoTime kill_at{};
  Request first;  // spares
  Request last;   // ends all
};

using Key = std::pair<std::string, std::string>;  // pod uid, grant
using State = std::map<Key, Entry>;

struct Step {
  std::vector<Drain> now;
  std::optional<MonoTime> next;  // when to step again, if nothing happens before
};

// `pods`: every pod of the node that is being deleted, with what it holds now. What is not in it any more is forgotten.
Step step(State& state, std::span<const StoppingPod> pods, MonoTime now, const Settings& settings = {});

// A request has ended. Of one that is not known (any more), nothing.
void ended(State& state, const Key& key, bool spare, bool done);

}  // namespace tranche::stopping
