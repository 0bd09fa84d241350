#pragma once
// Where an MPS server keeps the memory that it shares with its clients, read from /proc/<server>/maps. Newer drivers
// use an anonymous file (r580: `/memfd:mps.shm.0.488 (deleted)`, measured). Older ones are reported to use files in
// /dev/shm (`/dev/shm/cuda.shm.…`), which a client in a container sees only if it has the same /dev/shm as the server.
// Pure; fuzzed.
#include <string_view>

namespace tranche::mps {

enum class SharedMemory {
  kUnknown,    // neither kind is mapped (yet)
  kAnonymous,  // passed as a descriptor: clients need nothing
  kNamed,      // in /dev/shm: clients need the server's
};
std::string_view to_string(SharedMemory where);  // "unknown", "anonymous", "/dev/shm"

SharedMemory shared_memory_in(std::string_view maps);

}  // namespace tranche::mps
