#pragma once
// A client that died without leaving MPS may have hurt its neighbours or wedged the server: each such death is followed
// by a proof of the pool (a real CUDA start), soon, and one for many deaths at a time. Pure.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace tranche::stopping {

struct Suspicions {
  // A death that nobody had asked for. At most one proof a pool in `spacing`, the first at once.
  void died(const std::string& pool, MonoTime now);
  std::vector<std::string> take_due(MonoTime now);  // pools to prove now; each is told once
  std::optional<MonoTime> next() const;

  Duration spacing = std::chrono::seconds(5);
  std::map<std::string, MonoTime> due = {};     // by pool
  std::map<std::string, MonoTime> proved = {};  // when a proof was asked for last
};

}  // namespace tranche::stopping
