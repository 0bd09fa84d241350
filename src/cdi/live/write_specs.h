#pragma once
// Writes specs to the directory that container runtimes read. A runtime may read it at any time, so files are replaced
// atomically. Unchanged files are not touched, so that runtimes that watch the directory do not reload. No thread
// affinity; do not call it on the loop.
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cdi/spec.h"

namespace tranche::cdi {

inline constexpr const char* kDefaultCdiRoot = "/var/run/cdi";

struct WrittenSpecs {
  std::vector<std::string> written;  // file names
  std::vector<std::string> removed;
  friend bool operator==(const WrittenSpecs&, const WrittenSpecs&) = default;
};

// Writes new and changed files, mode 0644, and removes Tranche's files for classes that are not in `specs`. Files of
// other vendors and other classes stay. kInvalid: a path or name in a spec is not UTF-8, and nothing was written.
Result<WrittenSpecs> write_specs(const std::string& directory, std::span<const Spec> specs);

// Writes one spec to a file of its own, such as that of a claim, with the same check. Returns whether the file is new
// or changed.
Result<bool> write_spec(const std::string& directory, const std::string& name, const Spec& spec);
Status remove_spec(const std::string& directory, const std::string& name);  // no error if it does not exist

}  // namespace tranche::cdi
