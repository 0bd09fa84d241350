#pragma once
// Sizes on a command line: "512M", "3G", "14377MiB", "1GiB", "4096" (bytes). Binary units, as in MPS.
#include <optional>
#include <string_view>

#include "base/units.h"

namespace tranche::cli {

std::optional<Bytes> parse_size(std::string_view text);

}  // namespace tranche::cli
