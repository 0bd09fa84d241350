#pragma once
// How soon the guard stops a program that only allocates, how much it gets over its share, and what looking for it
// costs. From outside, with real processes on a simulated node; needs root (mount namespaces).
#include <nlohmann/json.hpp>

#include "programs.h"

namespace tranche::bench {

// One GPU in four slots. A tenant's first client holds most of its share; then a second one allocates 512 MiB every
// 2 ms: as soon as it has come (`fresh`), or after it has rested for longer than the guard looks often (`rested`).
// `cost`: CPU of the node agent while the tenant is close to its limit, within that time and after it.
nlohmann::ordered_json guard_stop(const Programs& programs, bool quick);

// How soon `tranche mps` has stopped a client when it is asked to end a container, when the client has gone, and how
// long it waited between: with a neighbour on the GPU, and alone, where nothing is waited for.
nlohmann::ordered_json client_end(const Programs& programs, bool quick);

}  // namespace tranche::bench
