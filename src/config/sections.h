#pragma once
// Inside config/ only: the parts of parse(), one function per section of the file.
#include "config/fields.h"
#include "config/model.h"

namespace tranche::config {

void parse_sharing(const Value& section, Sharing& sharing);

}  // namespace tranche::config
