#pragma once
// The life of a pool, from the plan that has it to the end of its daemon's last process: whether it may start, whether
// it has to wait for its users, when its daemon stops and starts again. The daemon itself (start, restarts, limits) is
// the supervisor's (mps/daemon/supervisor.h).
//
//            ┌───────────── waits: other holders, no program ───┐
//            ▼                                                  │
//        kWaiting ──may start──► kPreparing ──modes are set──► kServing ◄──planned again── kDraining
//            ▲                      │    ▲                      │   │                        │    ▲
//            │                   failed  │ retry                │   └────not planned, used───┼────┘
//            │                      ▼    │                      │ unused, or another holder  │ unused
//            │                     kFailed                      ▼                            │
//            └──gone, planned──────────────────────────────── kEnding ◄──────────────────────┘
//                                                               │ ▲
//                                        gone, not planned      ▼ └── clients have ended ── kForcing ◄── forced
//                                                             kEnded
//
// Level-triggered: each step takes the current inputs in whole. A daemon that has users stops only when the program
// ends; where that is forced (`tranche mps --end`), its clients are ended first. Pure.
#include <string>
#include <vector>

namespace tranche::mps {

enum class LifeState { kWaiting, kPreparing, kServing, kDraining, kForcing, kEnding, kFailed, kEnded };

struct LifeInputs {
  bool planned = true;
  bool closing = false;     // the program ends
  bool forced = false;      // closing, and clients are ended before the daemon stops
  std::string waits = {};   // why it may not start; "" = it may
  bool held = false;        // containers hold its GPUs without MPS
  std::string users = {};   // the event after which it has no users ("client has left"); "" = it has none
  bool has_daemon = false;  // a process of it is left, or may start
};

enum class LifeEvent {
  kInputs,        // the inputs may have changed
  kPlanChanged,   // the plan is new, or has changed this pool
  kModesSet,      // its GPUs have their compute mode
  kStartFailed,   // that failed, or the start
  kClientsEnded,  // those that it had
  kRetry,         // some time after a failure
};

enum class LifeAction {
  kSetModes,    // kModesSet or kStartFailed follows
  kStart,       // starts the daemon, or gives the one that runs the limits of the plan
  kStop,        // the daemon; its clients, if any, lose MPS
  kEndClients,  // admits no clients, and ends those that it has; kClientsEnded follows
  kDiscard,     // what is left of the daemon, which has ended
  kRetryLater,  // kRetry follows
};

struct PoolLife {
  LifeState state = LifeState::kWaiting;
  bool setting_modes = false;  // kModesSet or kStartFailed will follow
  std::string reason = {};     // why it does not serve, or will end; "" = none
};

// `why`: of kStartFailed.
std::vector<LifeAction> step(PoolLife& life, LifeEvent event, const LifeInputs& inputs, const std::string& why = {});

}  // namespace tranche::mps
