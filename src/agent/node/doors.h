#pragma once
// A grant's door: `<mps-root>/pools/<pool>/doors/<grant>/control`, a hard link to the pool's control socket.
// Idempotent: making it again is how a replayed answer or a restarted daemon is served. Any thread.
#include <string>

#include "allocate/grant.h"
#include "base/result.h"

namespace tranche::agent {

Status make_door(const allocate::Paths& paths, const std::string& pool, const std::string& grant);

}  // namespace tranche::agent
