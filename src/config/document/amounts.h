#pragma once
// Amounts in configuration values: memory sizes in Kubernetes notation, and factors. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "config/document/scalar.h"

namespace tranche::config {

// "4Gi", "600Mi", "1.5Gi", "4G" (decimal): whole MiB, rounded down, because MPS accepts no other sizes. Absent if the
// text has no unit, or is less than one MiB or more than 1024 TiB.
std::optional<Bytes> parse_memory_size(std::string_view text);
std::string render_memory_size(Bytes size);  // "4Gi", "600Mi"

// 2, 1.5, 0.25: at most two places, from 0.01 to 100; in hundredths.
std::optional<std::uint32_t> read_factor(const Scalar& scalar);
std::string render_factor(std::uint32_t hundredths);  // "2", "1.5"

}  // namespace tranche::config
