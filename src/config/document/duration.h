#pragma once
// Durations in the notation of NVIDIA's files and flags, which is Go's: "1h30m", "1.5s", "300ms", "0". Pure.
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace tranche::config {

inline constexpr Duration kInfinite = Duration::max();

// Absent if the text is not a duration or does not fit; "infinite" is kInfinite.
std::optional<Duration> parse_duration(std::string_view text);

// The shortest exact notation that parse_duration accepts; "1m0s" is written as "60s".
std::string render_duration(Duration duration);

}  // namespace tranche::config
