#pragma once
// One variable of another process's environment, as the process has it now: programs change their own (Python's
// os.environ does), and a library reads what is there when it starts. Where the live environment is not found, it is
// that of the process's start, which the kernel keeps.
//
// All of it is the other process's to write, so it is bounded and believed in nothing but what the process says of
// itself. Reading memory of a process can block for as long as that process likes (a page that a file system of its own
// has to fetch): this is for a thread that may wait (os/worker), never for the loop.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::host {

inline constexpr std::size_t kLongestVariable = 4096;  // bytes of a value; what is beyond is cut off

// kDenied: the process may not be looked at (CAP_SYS_PTRACE); kNotFound: it has ended. Of a name that is there several
// times it is the first, as getenv(3) has it.
Result<std::optional<std::string>> variable_of(pid_t pid, const std::string& name);

// --- the parts, for tests -------------------------------------------------------------------------------------------
// Of a block "NAME=value\0NAME=value\0…". Pure.
std::optional<std::string> variable_in(std::string_view block, std::string_view name);

// A file that a process has mapped, and where it begins in its memory.
struct MappedFile {
  std::string path;
  std::uint64_t base = 0;
  friend bool operator==(const MappedFile&, const MappedFile&) = default;
};
// A place in the file system of a process, which the kernel has told of a mapping, so that no part of it is a link.
// What is one by now would be followed in our own file system: then nothing is opened. To look at (O_PATH).
Fd open_below_root(pid_t pid, std::string_view path);

// The C library in a memory map (/proc/<pid>/maps), and what the process executes. Pure; fuzzed.
std::optional<MappedFile> libc_in(std::string_view maps);
std::optional<MappedFile> mapped_in(std::string_view maps, std::string_view path);

// Nothing where the process's live environment cannot be found; that a variable is not in it is "" below.
struct LiveVariable {
  std::optional<std::string> value;
};
std::optional<LiveVariable> live_variable(pid_t pid, const std::string& name);

}  // namespace tranche::host
