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
//            └──gone, planned──────────────────────────────── kEnding ◄──────────────────────┤
//                                                               │ ▲                          │ forced
//                                        gone, not planned      ▼ └──clients have ended── kForcing
//                                                             kEnded
//
// Level-triggered: each step takes the current inputs in whole. A daemon that has users stops only when the program
// ends, or after its clients were ended because a change is forced. Pure.
#include <string>
#include <vector>

namespace tranche::mps {

enum class LifeState { kWaiting, kPreparing, kServing, kDraining, kForcing, kEnding, kFailed, kEnded };

struct LifeInputs {
  bool planned = true;
  bool closing = false;     // the program ends
  bool forced = false;      // users do not delay the end: their clients are ended
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
  kReopen,      // admits clients again
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
