#pragma once
// Puts specs where container runtimes look for them. A runtime may read the directory at any moment, so a file is there
// whole or not at all; one that would not change is not touched, so that runtimes that watch the directory stay calm.
// No thread affinity; not for the loop.
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cdi/spec.h"

namespace tranche::host {

inline constexpr const char* kDefaultCdiRoot = "/var/run/cdi";

struct WrittenSpecs {
  std::vector<std::string> written;  // file names
  std::vector<std::string> removed;
  friend bool operator==(const WrittenSpecs&, const WrittenSpecs&) = default;
};

// Writes what is new or changed, mode 0644, and removes files of ours for classes that are not in `specs`. Files of
// anybody else, other vendors' and other classes, stay. Every spec is read back by our own strict parser first:
// kInvalid means that one is wrong and that nothing was written.
Result<WrittenSpecs> write_specs(const std::string& directory, std::span<const cdi::Spec> specs);

// One spec in a file of its own, such as that of a claim; checked in the same way. Whether the file is new or changed.
Result<bool> write_spec(const std::string& directory, const std::string& name, const cdi::Spec& spec);
Status remove_spec(const std::string& directory, const std::string& name);  // absent is fine

}  // namespace tranche::host
