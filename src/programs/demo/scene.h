#pragma once
// The files of a demonstration: the simulated node, its configuration and its pods, as text. Pure.
#include <string>

#include "programs/demo/demo_program.h"

namespace tranche::agent {

std::string scene_node(const DemoOptions& options);
std::string scene_config(const DemoOptions& options);
// Pods of several sizes for `gpus` × `slots` slots: most run, one requests more memory than its share and fails, and
// some do not fit and wait.
std::string scene_pods(const DemoOptions& options);

}  // namespace tranche::agent
