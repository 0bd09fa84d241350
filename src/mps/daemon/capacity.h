#pragma once
// How full an MPS server is. The driver refuses clients beyond the limit (measured: of 64 on an H200, 16 failed with
// "busy or unavailable"), so the note appears before that. Pure.
#include <cstdint>
#include <string>

#include "mps/daemon/supervisor.h"

namespace tranche::mps {

std::uint32_t live_clients(const Supervisor& state);
// "" below nine tenths of `most`.
std::string capacity_note(std::uint32_t live, std::uint32_t most);

}  // namespace tranche::mps
