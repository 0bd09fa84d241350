#pragma once
// What it costs that `tranche-keeper` holds the descriptors of so many clients: a client's start, rest, and the time
// from a client's death until its memory would be free. The keeper and its side of `tranche mps` are the real ones; a
// client is a process with as many descriptors as a PyTorch program has, of /dev/null and one terminal.
#include <nlohmann/json.hpp>

namespace tranche::bench {

// `count` starts and deaths one by one, beside `clients` that are held, and as many seconds of rest.
nlohmann::ordered_json hold_cost(int clients, int count);

}  // namespace tranche::bench
