#pragma once
// Finds where an ELF file defines a dynamic symbol, as the loader would. 64-bit, little-endian; any other file has
// none. The file is not trusted: the work is bounded by its size. Pure; fuzzed.
#include <cstdint>
#include <optional>
#include <string_view>

namespace tranche::host {

struct ElfSymbol {
  std::uint64_t address = 0;  // relative to the file's mapping, unless it is fixed
  bool fixed = false;         // an executable that is always mapped at its own address
  friend bool operator==(const ElfSymbol&, const ElfSymbol&) = default;
};

std::optional<ElfSymbol> dynamic_symbol(std::string_view file, std::string_view name);

}  // namespace tranche::host
