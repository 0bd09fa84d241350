#pragma once
// Spec ⇄ the JSON of a spec file. Reading is stricter than the runtimes are: every field known, every name, path,
// variable and hook of the shape that the CDI specification asks for, nothing used that the version has not. What we
// write passes it before it reaches a disk. Two fields of the specification are refused rather than read: intelRdt and
// netDevices, which no spec of ours has. Pure; fuzzed: parse ∘ render is the identity.
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "cdi/spec.h"

namespace tranche::cdi {

std::string render(const Spec& spec);  // indented, fields and lists in a fixed order, one line end at the end

struct ParsedSpec {
  Spec spec;                      // meaningful only when !has_error(problems)
  std::vector<Problem> problems;  // all of them
};

// `source` is the name put into Places, usually the path.
ParsedSpec parse_spec(std::string_view text, std::string_view source);

}  // namespace tranche::cdi
