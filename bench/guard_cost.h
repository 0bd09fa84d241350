#pragma once
// What the guard costs the node agent with so many clients on each GPU, measured from outside.
#include <chrono>
#include <nlohmann/json.hpp>

#include "programs.h"

namespace tranche::bench {

struct GuardLoad {
  int gpus = 8;
  int clients = 48;  // on each
  std::chrono::seconds time{10};
};

// CPU of the program while nothing changes and while one client changes at every sample, and what of it the stand-in
// for the driver takes: the same calls, made by this process.
nlohmann::ordered_json guard_cost(const Programs& programs, const GuardLoad& load);

}  // namespace tranche::bench
