#include "os/process/elf_symbol.h"

#include <elf.h>

#include <cstring>

namespace tranche::host {
namespace {

// `count` bytes at an offset; absent if the file does not have them.
std::optional<std::string_view> part(std::string_view file, std::uint64_t offset, std::uint64_t count) {
  if (offset > file.size() || count > file.size() - offset) return std::nullopt;
  return file.substr(offset, count);
}

template <class Record>
std::optional<Record> record_at(std::string_view file, std::uint64_t offset) {
  const auto bytes = part(file, offset, sizeof(Record));
  if (!bytes) return std::nullopt;
  Record record;
  std::memcpy(&record, bytes->data(), sizeof record);
  return record;
}

// The section header at `index`; absent if the file does not have it.
std::optional<Elf64_Shdr> section_at(std::string_view file, const Elf64_Ehdr& header, std::uint64_t index) {
  if (index >= header.e_shnum || header.e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
  if (header.e_shoff > file.size()) return std::nullopt;
  return record_at<Elf64_Shdr>(file, header.e_shoff + index * sizeof(Elf64_Shdr));
}

bool is_named(std::string_view names, std::uint64_t offset, std::string_view name) {
  if (offset >= names.size()) return false;
  const auto rest = names.substr(offset);
  return rest.size() > name.size() && rest.starts_with(name) && rest[name.size()] == '\0';
}

std::optional<std::uint64_t> value_in(std::string_view symbols, std::string_view names, std::string_view name) {
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
    const auto symbol = record_at<Elf64_Sym>(symbols, at);
    if (symbol && symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && is_named(names, symbol->st_name, name))
      return symbol->st_value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ElfSymbol> dynamic_symbol(std::string_view file, std::string_view name) {
  const auto header = record_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) return std::nullopt;
  if (header->e_type != ET_DYN && header->e_type != ET_EXEC) return std::nullopt;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = section_at(file, *header, i);
    if (!section || section->sh_type != SHT_DYNSYM) continue;
    const auto strings = section_at(file, *header, section->sh_link);
    const auto symbols = part(file, section->sh_offset, section->sh_size);
    const auto names = strings ? part(file, strings->sh_offset, strings->sh_size) : std::nullopt;
    if (!symbols || !names) continue;
    // A linker creates only one such section: no other is read, which bounds the work.
    const auto address = value_in(*symbols, *names, name);
    return address ? std::optional(ElfSymbol{*address, header->e_type == ET_EXEC}) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tranche::host
