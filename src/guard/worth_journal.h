#pragma once
// What grants are worth, written down when they are given: another configuration must not change it for a pod that runs
// (DESIGN: a grant never changes meaning), and the agent may be started anew meanwhile. One line a grant and device:
// `<grant> <device UUID> <pool> <resource> <bytes> <threads> <tenant>`; bytes and threads (hundredths of a percent)
// 0 = not limited, tenant "-" = kubelet has not told. The resource of a claim is its driver, without a slash. Lines of
// five words, without the last two, are an earlier release's. Pure; fuzzed: parse ∘ render is the identity.
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "guard/judge.h"

namespace tranche::guard {

struct Worth {
  std::string pool;
  std::string resource;
  Bytes memory;
  std::optional<Percent> threads{};  // absent: not known any more
  // Which grants are of one container (tenants.h): the first of their ids. "" while kubelet has not told.
  std::string tenant{};
  friend bool operator==(const Worth&, const Worth&) = default;
};
using Worths = std::map<GrantOnDevice, Worth>;

std::string render_worths(const Worths& worths);
Worths parse_worths(std::string_view text);  // lines that are not understood are passed over

}  // namespace tranche::guard
