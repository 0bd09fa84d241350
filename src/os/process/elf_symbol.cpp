#include "os/process/elf_symbol.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace tranche::host {
namespace {

constexpr std::uint64_t kMostSections = 4096;  // a linker writes some dozens
constexpr std::size_t kMostPlaces = 64;        // of one name among the strings; a linker writes it once
constexpr std::size_t kSymbols = kElfPart / sizeof(Elf64_Sym);

template <class Record>
std::optional<Record> record_at(const ElfReader& file, std::uint64_t offset) {
  const auto bytes = file(offset, sizeof(Record));
  if (bytes.size() != sizeof(Record)) return std::nullopt;
  Record record;
  std::memcpy(&record, bytes.data(), sizeof record);
  return record;
}

// The section header at `index`; absent if the file does not have it.
std::optional<Elf64_Shdr> section_at(const ElfReader& file, const Elf64_Ehdr& header, std::uint64_t index) {
  if (index >= header.e_shnum || header.e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
  const std::uint64_t offset = header.e_shoff + index * sizeof(Elf64_Shdr);
  if (offset < header.e_shoff) return std::nullopt;
  return record_at<Elf64_Shdr>(file, offset);
}

bool is_readable(const Elf64_Shdr& section) {
  return section.sh_size <= kMostElfNames && section.sh_offset + section.sh_size >= section.sh_offset;
}

// Where the name and the zero after it are among the strings, also as the end of a longer name.
std::vector<std::uint64_t> places_of(const ElfReader& file, const Elf64_Shdr& strings, std::string_view name) {
  std::vector<std::uint64_t> places;
  const std::string wanted = std::string(name) + '\0';
  const std::uint64_t step = kElfPart - wanted.size() + 1;  // parts overlap: the name may be across their border
  for (std::uint64_t at = 0; at < strings.sh_size && places.size() < kMostPlaces; at += step) {
    const auto count = std::min<std::uint64_t>(kElfPart, strings.sh_size - at);
    const auto part = file(strings.sh_offset + at, count);
    for (auto found = part.find(wanted); found != std::string_view::npos && places.size() < kMostPlaces;
         found = part.find(wanted, found + 1))
      places.push_back(at + found);
    if (part.size() < count) return {};  // the file does not have the whole section
  }
  return places;
}

std::optional<std::uint64_t> value_of(const ElfReader& file, const Elf64_Shdr& symbols,
                                      const std::vector<std::uint64_t>& places) {
  const std::uint64_t count = symbols.sh_size / sizeof(Elf64_Sym);
  for (std::uint64_t first = 0; first < count; first += kSymbols) {
    const auto bytes = std::min(kSymbols, count - first) * sizeof(Elf64_Sym);
    const auto part = file(symbols.sh_offset + first * sizeof(Elf64_Sym), bytes);
    if (part.size() < bytes) return std::nullopt;
    for (std::size_t at = 0; at < part.size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, part.data() + at, sizeof symbol);
      if (symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && std::ranges::binary_search(places, symbol.st_name))
        return symbol.st_value;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ElfSymbol> dynamic_symbol(const ElfReader& file, std::string_view name) {
  const auto header = record_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) return std::nullopt;
  if (header->e_type != ET_DYN && header->e_type != ET_EXEC) return std::nullopt;
  if (name.empty() || name.size() >= kElfPart) return std::nullopt;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(header->e_shnum, kMostSections); ++i) {
    const auto symbols = section_at(file, *header, i);
    if (!symbols || symbols->sh_type != SHT_DYNSYM) continue;
    const auto strings = section_at(file, *header, symbols->sh_link);
    if (!strings || !is_readable(*symbols) || !is_readable(*strings)) continue;
    // A linker creates only one such section: no other is read, which bounds the work.
    const auto places = places_of(file, *strings, name);
    const auto address = places.empty() ? std::nullopt : value_of(file, *symbols, places);
    return address ? std::optional(ElfSymbol{*address, header->e_type == ET_EXEC}) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<ElfSymbol> dynamic_symbol(std::string_view file, std::string_view name) {
  return dynamic_symbol(
      [file](std::uint64_t offset, std::size_t count) {
        return file.substr(std::min<std::uint64_t>(offset, file.size()), count);
      },
      name);
}

}  // namespace tranche::host
