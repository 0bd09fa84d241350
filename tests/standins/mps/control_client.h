#pragma once
// The command side of nvidia-cuda-mps-control: sends lines to the daemon of a pipe directory and prints its answers.
#include <string>
#include <vector>

namespace tranche::sim {

// `command` empty: lines from stdin until it ends. The exit status.
int run_control_client(const std::string& pipe_directory, const std::string& command);

}  // namespace tranche::sim
