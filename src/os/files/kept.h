#pragma once
// Files that a program keeps for its own next start (docs/reference/paths.md, "State across restarts"). One that cannot
// be read is put aside under `<name>.unreadable`: what it said is lost and nothing else, the next write finds its place
// free, and an operator can look at it. No thread affinity.
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/files/files.h"

namespace tranche::os {

inline constexpr const char* kAsideSuffix = ".unreadable";

struct KeptFile {
  std::optional<std::string> text;  // absent: the file does not exist, or was put aside
  std::string lost;                 // what was lost, why, and the file's new name; "" = nothing
};

// Returns whole lines only: all our files end with a line end, so a last line without one is truncated. Follows no
// link.
KeptFile read_kept(const Dir& folder, const std::string& name, std::size_t limit = 1 << 20);

// write_atomically(), also if a directory is at the file's path: the directory is put aside.
Status write_kept(const Dir& folder, const std::string& name, std::string_view text, mode_t mode,
                  Sync sync = Sync::kNo);

// Identifies the current boot of the machine, for records that a reboot makes invalid. "": the kernel reports none.
std::string boot_id();

// Removes what writes that were killed left in `folder`: the temporary files of names for which `ours` is true. A write
// of another process that is under way fails.
void remove_temporaries(const Dir& folder, const std::function<bool(std::string_view name)>& ours);

// For a file that was read and makes no sense to its reader. Returns KeptFile::lost. Replaces what was put aside
// before.
std::string put_aside(const Dir& folder, const std::string& name, const std::string& why);

}  // namespace tranche::os
