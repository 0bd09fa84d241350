#pragma once
// Durations as NVIDIA's files and flags write them, which is Go's notation: "1h30m", "1.5s", "300ms", "0". Pure.
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace tranche::config {

inline constexpr Duration kInfinite = Duration::max();

// Nothing when the text is not a duration or does not fit; "infinite" is kInfinite.
std::optional<Duration> parse_duration(std::string_view text);

// The shortest exact notation that parse_duration reads back: "1m0s" is written "60s".
std::string render_duration(Duration duration);

}  // namespace tranche::config
