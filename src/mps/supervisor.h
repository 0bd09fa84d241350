#pragma once
// One MPS control daemon as a pure state machine: what happened and what time it is → the new state and what to do.
// host/mps carries the actions out and turns the world into events. Every arrow is a row in supervisor_test.cpp.
//
//   Absent ──start──► Starting ──answers──► Configuring ──limits read back──► Serving
//     ▲                  │ exit/timeout         │ refused/timeout                │ exit, mute
//     │                  ▼                      ▼                                ▼
//     └── back-off over ─ BackingOff ◄──────────┴────────────────────────────────┘
//   any ──stop──► Stopping ──exit──► Absent     (quit, then SIGTERM, then SIGKILL)
//   too many failures in a row ──► GivenUp ──(new desired state or "retry")──► Starting
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "plan/plan.h"

namespace tranche::mps {

enum class State { kAbsent, kStarting, kConfiguring, kServing, kBackingOff, kStopping, kGivenUp };
std::string_view to_string(State state);

}  // namespace tranche::mps
