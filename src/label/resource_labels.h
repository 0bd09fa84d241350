#pragma once
// Inside label/: what nvidia.com/gpu.* and nvidia.com/mig-<profile>.* say about the devices themselves.
#include <vector>

#include "label/label.h"

namespace tranche::label {

inline constexpr std::size_t kLongestValue = 63;

// Cut to `longest`, beginning and ending with a letter or digit, as the API server asks of a label value.
std::string bounded(std::string value, std::size_t longest = kLongestValue);

// `gpus` are those that GPU feature discovery looks at, at least one.
void add_resource_labels(const config::Config& config, const std::vector<const inventory::Gpu*>& gpus, Labels& labels);

}  // namespace tranche::label
