#pragma once
// The commands of nvidia-cuda-mps-control that a container may send at its endpoint, and the replies: its own limits,
// in the daemon's format. The daemon receives nothing of it. The messages are the daemon's, undocumented and measured
// (docs/internals/evidence/mps-handshake.md, "Messages on control"). Any other command counts as an attempt (relay.h).
// Pure; fuzzed with the relay.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mps/limits/limits.h"

namespace tranche::mps {

inline constexpr std::size_t kLongestQuestion = 256;                 // bytes
inline constexpr unsigned kMostQuestions = 16;                       // for each connection
inline constexpr std::string_view kRelayEnd{"\1\0\0\0\0\0\0\0", 8};  // after the caller's zero: done, status 0

struct RelayQuestion {
  enum class Kind { kThreads, kMemory };
  Kind kind = Kind::kThreads;
  std::string device;  // of kMemory: an ordinal among the container's GPUs, or a UUID
  friend bool operator==(const RelayQuestion&, const RelayQuestion&) = default;
};

// 8 bytes, little-endian: the length of the next message; 0 = no more questions. Absent: another message.
std::optional<std::uint64_t> length_announced(std::string_view bytes);
// "get_default_active_thread_percentage\n\0", "get_default_device_pinned_mem_limit 0\n\0". Absent: anything else.
std::optional<RelayQuestion> parse_question(std::string_view bytes);
// The reply; "" if the daemon would print nothing: no such device, or no limit. `limits` has the devices that the
// container holds, in the order of its ordinals.
std::string answer_to(const RelayQuestion& question, const DaemonLimits& limits);

}  // namespace tranche::mps
