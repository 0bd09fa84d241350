#include "os/process/elf_symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "os/files/files.h"

namespace tranche::host {
namespace {

// The C library of this process: its file, and its mapping.
struct Here {
  std::string path;
  std::uint64_t base = 0;
};

Here libc_here() {
  Here here;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        const std::string_view name = info->dlpi_name;
        if (name.find("/libc.so.6") != std::string_view::npos)
          *static_cast<Here*>(into) = {std::string(name), info->dlpi_addr};
        return 0;
      },
      &here);
  return here;
}

std::string libc_file() {
  const auto file = read_file(libc_here().path, std::size_t{64} << 20);
  EXPECT_TRUE(file) << libc_here().path;
  return file.value_or("");
}

TEST(ElfSymbol, IsWhereTheLoaderFindsIt) {
  const std::string file = libc_file();
  // Not through the global scope: a sanitizer's own definition of some names comes first.
  void* libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(libc, nullptr);
  for (const char* name : {"getpid", "getppid", "puts", "environ"}) {
    const auto symbol = dynamic_symbol(file, name);
    ASSERT_TRUE(symbol) << name;
    EXPECT_FALSE(symbol->fixed);
    EXPECT_EQ(libc_here().base + symbol->address, reinterpret_cast<std::uint64_t>(::dlsym(libc, name))) << name;
  }
  ::dlclose(libc);
}

TEST(ElfSymbol, WhatTheFileDoesNotDefineIsNotFound) {
  const std::string file = libc_file();
  for (const char* name : {"no_such_symbol", "", "getpi", "getpidd"}) EXPECT_FALSE(dynamic_symbol(file, name)) << name;
}

TEST(ElfSymbol, WhatIsNoElfFileHasNone) {
  EXPECT_FALSE(dynamic_symbol("", "environ"));
  EXPECT_FALSE(dynamic_symbol("#!/bin/sh\n", "environ"));
  EXPECT_FALSE(dynamic_symbol(std::string(200, '\xff'), "environ"));
  std::string file = libc_file();
  file[EI_CLASS] = ELFCLASS32;
  EXPECT_FALSE(dynamic_symbol(file, "getpid"));
}

// In a truncated file, no byte beyond its end is read.
TEST(ElfSymbol, ACutFileIsReadToItsEndOnly) {
  const std::string file = libc_file();
  for (std::size_t size = 0; size < file.size(); size += 1 + file.size() / 300) {
    const std::string part(file, 0, size);  // separate memory: a sanitizer detects reads beyond it
    EXPECT_FALSE(dynamic_symbol(part, "getpid")) << size << ": section headers stand at the end";
  }
}

TEST(ElfSymbol, ALargeFileIsNotReadAsAWhole) {
  const std::string file = libc_file() + std::string(std::size_t{64} << 20, '\0');
  std::size_t read = 0;
  const auto symbol = dynamic_symbol(
      [&](std::uint64_t offset, std::size_t count) {
        EXPECT_LE(count, kElfPart);
        read += count;
        return std::string_view(file).substr(offset, count);
      },
      "getpid");
  EXPECT_TRUE(symbol);
  EXPECT_LT(read, std::size_t{1} << 20);
}

TEST(ElfSymbol, OffsetsThatWrapAroundAreNotFollowed) {
  std::string file = libc_file();
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  for (const std::uint64_t offset : {~0ull, ~0ull - 63, ~0ull - sizeof(Elf64_Shdr) * 3, 1ull << 63}) {
    header.e_shoff = offset;
    std::memcpy(file.data(), &header, sizeof header);
    EXPECT_FALSE(dynamic_symbol(file, "getpid"));
  }
}

}  // namespace
}  // namespace tranche::host
