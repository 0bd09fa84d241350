#pragma once
// When to end the clients of a pod that is being deleted, so that no signal reaches one with GPU work in flight (which
// would crash its neighbours). The pod watch precedes SIGTERM by about 19 ms and SIGKILL by the whole grace period, so
// there are two requests for each container's grant (docs/guide/stop-and-change.md):
//
// now           for clients that the stop signal would kill; `tranche mps` decides which, and spares the others. Of
//               these, it pauses those that react to the signal, if the grace period leaves them as much time after
//               the pause, and the signal follows at once.
//               Not for a container with a tranche-drain preStop hook, which sends the request itself after the user's
//               own hook; with a preStop sleep, shortly before its end.
// margin() before the SIGKILL, or when the pod was force-deleted
//               for all remaining clients.
// no clients    none, until there are some
//
// Each step takes the full current state (level-triggered), so steps may come late, twice or in any order. A failed
// request is repeated once. Nothing here delays a deletion. Pure.
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"

namespace tranche::stopping {

struct Holding {  // the holdings of one container of the pod
  std::string container = {};
  std::string pool = {};
  std::string grant = {};
  std::optional<std::size_t> clients = {};  // absent: not known, which counts as one
  bool hooked = false;                      // its preStop hook is tranche-drain
  Duration sleeps{};                        // its preStop hook is a sleep of this length
  bool own_hook = false;                    // it has another preStop hook, whose end is not known
  int stop_signal = 0;                      // 0: not known
};

struct StoppingPod {
  std::string uid;
  std::string pod_namespace;
  std::string name;
  Duration grace{};   // deletionGracePeriodSeconds as reported at `seen`
  MonoTime seen{};    // when that was received: deletionTimestamp is rounded, this is not
  bool gone = false;  // force-deleted: the object no longer exists, its containers are about to be killed
  std::vector<Holding> holdings;
};

struct Settings {
  Duration stop_patience = std::chrono::seconds(2);  // sharing.mps.stopPatience
};
// Time between the second request and the SIGKILL: the work of stopped clients finishes, and they exit.
Duration margin(const Settings& settings);

struct Drain {
  std::string uid;
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string pool;
  std::string grant;
  std::string reason;   // for logs, events, and the program that executes it
  bool spare = false;   // keep clients that the stop signal does not kill
  int stop_signal = 0;  // 0: not known
  bool pause = false;   // pause those that react to the signal
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
  std::optional<MonoTime> next;  // when to step again, if nothing happens earlier
};

// `pods`: all pods of the node that are being deleted, with their present holdings. Others are forgotten.
Step step(State& state, std::span<const StoppingPod> pods, MonoTime now, const Settings& settings = {});

// A request has ended. Ignored if the key is not known (any more).
void ended(State& state, const Key& key, bool spare, bool done);

}  // namespace tranche::stopping
