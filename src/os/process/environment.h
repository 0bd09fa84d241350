#pragma once
// Reads one variable of another process's environment as it is now: programs change their own environment (Python's
// os.environ does), and a library reads it when the library starts. If the live environment is not found, it is that of
// the process's start, which the kernel keeps.
//
// The other process can write all of it, so every read is bounded, and the result is only the process's own claim.
// Reading a process's memory can block for as long as that process likes (a page that its own file system has to
// fetch): use a thread that may wait (os/worker), never the loop.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::host {

inline constexpr std::size_t kLongestVariable = 4096;  // bytes of a value; the rest is cut off

// kDenied: the process may not be inspected (CAP_SYS_PTRACE); kNotFound: it has exited. For a duplicate name, the first
// value, as getenv(3) returns.
Result<std::optional<std::string>> variable_of(pid_t pid, const std::string& name);

// --- the parts, for tests -------------------------------------------------------------------------------------------
// From a block "NAME=value\0NAME=value\0…". Pure.
std::optional<std::string> variable_in(std::string_view block, std::string_view name);

// A file that a process has mapped, and the start of the mapping in its memory.
struct MappedFile {
  std::string path;
  std::uint64_t base = 0;
  friend bool operator==(const MappedFile&, const MappedFile&) = default;
};
// Opens a path in a process's file system that the kernel reported for a mapping, so that no part of it is a link. If a
// part is a link by now, following it would lead into our own file system: then nothing is opened. For inspection
// (O_PATH).
Fd open_below_root(pid_t pid, std::string_view path);

// The C library in a memory map (/proc/<pid>/maps), and the mapping of one path. Pure; fuzzed.
std::optional<MappedFile> libc_in(std::string_view maps);
std::optional<MappedFile> mapped_in(std::string_view maps, std::string_view path);

// Absent if the process's live environment cannot be found; an empty `value` means that the variable is not set.
struct LiveVariable {
  std::optional<std::string> value;
};
std::optional<LiveVariable> live_variable(pid_t pid, const std::string& name);

}  // namespace tranche::host
