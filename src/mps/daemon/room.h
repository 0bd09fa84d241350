#pragma once
// How full an MPS server is: the driver refuses the client after the last (measured: of 64 on an H200, 16 failed with
// "busy or unavailable"), so it is said before that. Pure.
#include <cstdint>
#include <string>

#include "mps/daemon/supervisor.h"

namespace tranche::mps {

std::uint32_t live_clients(const Supervisor& state);
// "" below nine tenths of `most`.
std::string room_note(std::uint32_t live, std::uint32_t most);

}  // namespace tranche::mps
