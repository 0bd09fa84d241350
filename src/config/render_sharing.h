#pragma once
// Inside config/ only: the sharing part of render.h.
#include <nlohmann/json_fwd.hpp>

#include "config/model.h"

namespace tranche::config {

nlohmann::ordered_json render_sharing(const Sharing& sharing);

}  // namespace tranche::config
