#pragma once
// Finds where an ELF file defines a dynamic symbol, as the loader would. 64-bit, little-endian; any other file has
// none. The file is not trusted, and may be large: only its headers and two sections are read, in parts of kElfPart
// bytes. The work is bounded by the sizes of these sections, at most kMostElfNames each. Pure; fuzzed.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace tranche::host {

struct ElfSymbol {
  std::uint64_t address = 0;  // relative to the file's mapping, unless it is fixed
  bool fixed = false;         // an executable that is always mapped at its own address
  friend bool operator==(const ElfSymbol&, const ElfSymbol&) = default;
};

inline constexpr std::size_t kElfPart = std::size_t{64} << 10;
inline constexpr std::uint64_t kMostElfNames = std::uint64_t{32} << 20;

// `count` bytes at an offset, or fewer at the end of the file. Valid until the next call. `count` is at most kElfPart.
using ElfReader = std::function<std::string_view(std::uint64_t offset, std::size_t count)>;

std::optional<ElfSymbol> dynamic_symbol(const ElfReader& file, std::string_view name);
std::optional<ElfSymbol> dynamic_symbol(std::string_view file, std::string_view name);

}  // namespace tranche::host
