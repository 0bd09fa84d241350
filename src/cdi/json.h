#pragma once
// Spec ⇄ the JSON of a spec file. Reading is stricter than the runtimes are: every field must be known, every name,
// path, variable and hook well-formed by the CDI specification, and no field newer than the version. Specs pass it
// before they are written to disk. Two fields of the specification are refused, because Tranche's specs do not use
// them: intelRdt and netDevices. Pure; fuzzed: parse ∘ render is the identity.
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "cdi/spec.h"

namespace tranche::cdi {

std::string render(const Spec& spec);  // indented, fields and lists in a fixed order, with a final line end

struct ParsedSpec {
  Spec spec;                      // valid only if !has_error(problems)
  std::vector<Problem> problems;  // all of them
};

// `source` is the name used in Places, usually the path.
ParsedSpec parse_spec(std::string_view text, std::string_view source);

}  // namespace tranche::cdi
