#pragma once
// Inside label/: what nvidia.com/gpu.* and nvidia.com/mig-<profile>.* say about the devices themselves.
#include <vector>

#include "labels/label.h"

namespace tranche::label {

inline constexpr std::size_t kLongestValue = 63;

using Gpus = std::vector<const inventory::Gpu*>;

Gpus labelled_gpus(const inventory::Inventory& inventory);  // those that GPU feature discovery looks at

// The GPU that stands for all in nvidia.com/gpu.*, of at least one: plain ones before those with MIG on, then the
// commonest model, then the lowest index.
const inventory::Gpu& speaker_of(const Gpus& gpus);

// Cut to `longest`, beginning and ending with a letter or digit, as the API server asks of a label value.
std::string bounded(std::string value, std::size_t longest = kLongestValue);

// `gpus`: at least one.
void add_resource_labels(const config::Config& config, const plan::Plan& plan, const Gpus& gpus, Labels& labels);

}  // namespace tranche::label
