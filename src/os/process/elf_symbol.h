#pragma once
// Where an ELF file defines a dynamic symbol: what the loader would find there. 64-bit, little-endian; anything else
// has none. The file is somebody else's: nothing in it is believed, and the work is bounded by its size. Pure; fuzzed.
#include <cstdint>
#include <optional>
#include <string_view>

namespace tranche::host {

struct ElfSymbol {
  std::uint64_t address = 0;  // relative to where the file is mapped, unless it is fixed
  bool fixed = false;         // an executable that is always mapped where it says
  friend bool operator==(const ElfSymbol&, const ElfSymbol&) = default;
};

std::optional<ElfSymbol> dynamic_symbol(std::string_view file, std::string_view name);

}  // namespace tranche::host
