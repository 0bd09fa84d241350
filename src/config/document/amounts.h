#pragma once
// The value of a plain (unquoted) YAML scalar, by the YAML 1.1 rules of NVIDIA's parser: yes/no/on/off are booleans,
// 010 is eight, 0x10 sixteen, 1_000 a thousand; base 60 is not supported. yaml-cpp itself does not assign types. And
// the amounts in such values: memory sizes in Kubernetes notation, factors, and durations in the notation of NVIDIA's
// files and flags, which is Go's: "1h30m", "1.5s", "300ms", "0". Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/time.h"
#include "base/units.h"

namespace tranche::config {

using Null = std::monostate;
using Scalar = std::variant<Null, bool, std::int64_t, double, std::string>;

// An integer beyond 64 bits is returned as a double.
Scalar resolve_plain(std::string_view text);

// For messages: "nothing", "true", "the number 5", "the text \"x\"".
std::string describe(const Scalar& scalar);

// "4Gi", "600Mi", "1.5Gi", "4G" (decimal): whole MiB, rounded down, because MPS accepts no other sizes. Absent if the
// text has no unit, or is less than one MiB or more than 1024 TiB.
std::optional<Bytes> parse_memory_size(std::string_view text);
std::string render_memory_size(Bytes size);  // "4Gi", "600Mi"

// 2, 1.5, 0.25: at most two places, from 0.01 to 100; in hundredths.
std::optional<std::uint32_t> read_factor(const Scalar& scalar);

inline constexpr Duration kInfinite = Duration::max();

// Absent if the text is not a duration or does not fit; "infinite" is kInfinite.
std::optional<Duration> parse_duration(std::string_view text);

// The shortest exact notation that parse_duration accepts; "1m0s" is written as "60s".
std::string render_duration(Duration duration);

}  // namespace tranche::config
