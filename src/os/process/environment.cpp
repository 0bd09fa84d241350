#include "os/process/environment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "os/files/files.h"
#include "os/files/links.h"
#include "os/loop/fd.h"
#include "os/process/elf_symbol.h"
#include "os/process/threads.h"

namespace tranche::host {

Fd open_below_root(pid_t pid, std::string_view path) {
  Fd at(::open(fmt::format("/proc/{}/root", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const auto part : split(path, '/')) {
    if (part.empty()) continue;
    if (!at || part == "..") return {};
    at = Fd(::openat(at.get(), std::string(part).c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  return at;
}
namespace {

constexpr std::size_t kLongestBlock = std::size_t{1} << 20;  // of an environment
constexpr std::size_t kLongestMaps = std::size_t{8} << 20;   // a process with tens of thousands of mappings
constexpr std::size_t kMostVariables = 4096;
constexpr std::uint64_t kPage = 4096;

// `start-end perms offset dev inode   path`
struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t offset = 0;
  std::string_view path;
};

std::optional<Mapping> mapping_of(std::string_view line) {
  std::string_view fields[5];
  for (auto& field : fields) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const auto end = std::min(line.find(' '), line.size());
    field = line.substr(0, end);
    line.remove_prefix(end);
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const auto start = parse_unsigned(fields[0].substr(0, fields[0].find('-')), 16);
  const auto offset = parse_unsigned(fields[2], 16);
  if (!start || !offset) return std::nullopt;
  return Mapping{*start, *offset, line};
}

bool is_libc(std::string_view path) {
  const auto name = path.substr(path.rfind('/') + 1);
  return name == "libc.so.6" || (name.starts_with("libc-2.") && name.ends_with(".so")) ||
         name.starts_with("ld-musl-") || name.starts_with("libc.musl-");
}

template <class Wanted>
std::optional<MappedFile> first_mapping(std::string_view maps, const Wanted& wanted) {
  for (const auto line : lines_of(maps)) {
    const auto mapping = mapping_of(line);
    if (mapping && mapping->offset == 0 && wanted(mapping->path))
      return MappedFile{std::string(mapping->path), mapping->start};
  }
  return std::nullopt;
}

// Opens only a regular file, and checks that before opening: a tenant chooses the path's target, and opening a device
// can have effects.
Fd file_at(const Fd& place) {
  struct stat status{};
  if (!place || ::fstat(place.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return Fd(::open(fmt::format("/proc/self/fd/{}", place.get()).c_str(), O_RDONLY | O_CLOEXEC));
}

// Not the whole file into memory: a tenant chooses its size.
std::optional<ElfSymbol> symbol_in(const Fd& file, std::string_view name) {
  std::string part;
  return dynamic_symbol(
      [&](std::uint64_t offset, std::size_t count) {
        part.resize(count);
        std::size_t have = 0;
        while (have < count) {
          const ssize_t got = ::pread(file.get(), part.data() + have, count - have, static_cast<off_t>(offset + have));
          if (got <= 0) break;
          have += static_cast<std::size_t>(got);
        }
        return std::string_view(part).substr(0, have);
      },
      name);
}

// Reads page by page, because later pages may not be mapped; returns as much as could be read.
std::string memory_of(pid_t pid, std::uint64_t address, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const std::uint64_t from = address + have;
    const std::size_t step = std::min<std::size_t>(count - have, kPage - from % kPage);
    const iovec here{bytes.data() + have, step};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
    const iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(from)), step};
    if (::process_vm_readv(pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(step)) break;
    have += step;
  }
  bytes.resize(have);
  return bytes;
}

std::uint64_t word_at(pid_t pid, std::uint64_t address) {
  const std::string bytes = memory_of(pid, address, sizeof(std::uint64_t));
  std::uint64_t word = 0;
  if (bytes.size() == sizeof word) std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

// The address of `environ` in the process: the executable's, if it has a copy of its own (then the C library's is
// unused), or the C library's.
std::optional<std::uint64_t> environ_address(pid_t pid) {
  constexpr std::string_view kNames[] = {"environ", "__environ"};
  const auto maps = read_file(fmt::format("/proc/{}/maps", pid), kLongestMaps);
  const auto exe = read_link(fmt::format("/proc/{}/exe", pid));
  if (!maps || !exe) return std::nullopt;
  const auto libc = libc_in(*maps);
  const auto own = mapped_in(*maps, *exe);
  const auto executable = [pid] { return Fd(::open(fmt::format("/proc/{}/exe", pid).c_str(), O_PATH | O_CLOEXEC)); };
  for (const auto* each : {&own, &libc}) {
    if (!*each) continue;
    const MappedFile& mapped = **each;
    const auto file = file_at(each == &own ? executable() : open_below_root(pid, mapped.path));
    if (!file) continue;
    for (const auto name : kNames)
      if (const auto symbol = symbol_in(file, name))
        return symbol->fixed ? symbol->address : mapped.base + symbol->address;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> variable_in(std::string_view block, std::string_view name) {
  for (const auto entry : split(block, '\0')) {
    if (entry.size() <= name.size() || !entry.starts_with(name) || entry[name.size()] != '=') continue;
    return std::string(entry.substr(name.size() + 1, kLongestVariable));
  }
  return std::nullopt;
}

std::optional<MappedFile> libc_in(std::string_view maps) {
  return first_mapping(maps, is_libc);
}

std::optional<MappedFile> mapped_in(std::string_view maps, std::string_view path) {
  return first_mapping(maps, [path](std::string_view mapped) { return mapped == path; });
}

std::optional<LiveVariable> live_variable(pid_t pid, const std::string& name) {
  const auto at = environ_address(pid);
  const std::uint64_t list = at ? word_at(pid, *at) : 0;
  if (list == 0) return std::nullopt;  // absent, or not initialised yet
  const std::string wanted = name + "=";
  for (std::size_t i = 0; i < kMostVariables; ++i) {
    const std::uint64_t entry = word_at(pid, list + i * sizeof(std::uint64_t));
    if (entry == 0) return LiveVariable{};
    if (memory_of(pid, entry, wanted.size()) != wanted) continue;
    const std::string value = memory_of(pid, entry + wanted.size(), kLongestVariable);
    return LiveVariable{value.substr(0, value.find('\0'))};
  }
  return std::nullopt;
}

Result<std::optional<std::string>> variable_of(pid_t pid, const std::string& name) {
  std::optional<LiveVariable> live;
  Result<std::string> block = std::string();
  look_at_living_thread(pid, [&](const std::string& folder, pid_t thread) {
    live = live_variable(thread, name);
    if (!live) block = read_file(folder + "/environ", kLongestBlock);
    return live.has_value();
  });
  if (live) return std::move(live->value);
  if (!block) return std::unexpected(block.error());
  return variable_in(*block, name);
}

}  // namespace tranche::host
