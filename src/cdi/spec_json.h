#pragma once
// A spec → the JSON of a spec file. Pure.
#include <string>

#include "cdi/spec.h"

namespace tranche::cdi {

// Indented, with fields and lists in a fixed order and a final line end. Bytes that are not UTF-8 become U+FFFD.
std::string render(const Spec& spec);

}  // namespace tranche::cdi
