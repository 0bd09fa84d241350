#pragma once
// Inside label/: the labels nvidia.com/gpu.* and nvidia.com/mig-<profile>.* about the devices themselves.
#include <vector>

#include "labels/label.h"

namespace tranche::label {

inline constexpr std::size_t kLongestValue = 63;

using Gpus = std::vector<const inventory::Gpu*>;

Gpus labelled_gpus(const inventory::Inventory& inventory);  // those that GPU feature discovery considers

// The GPU that nvidia.com/gpu.* describes, of at least one: GPUs without MIG first, then the most common model, then
// the lowest index.
const inventory::Gpu& speaker_of(const Gpus& gpus);

// Shortened to `longest`, beginning and ending with a letter or digit, as the API server requires of a label value.
std::string bounded(std::string value, std::size_t longest = kLongestValue);

// `gpus`: at least one.
void add_resource_labels(const config::Config& config, const plan::Plan& plan, const Gpus& gpus, Labels& labels);

}  // namespace tranche::label
