#pragma once
// The `sim-node` command: creates a simulated node and changes it while stand-ins run on it. From words to text and an
// exit status; main() is in sim_node_main.cpp.
#include <iosfwd>
#include <string>
#include <vector>

namespace tranche::sim {

// 0 success, 1 failure, 2 invalid words. Errors go to `err` with the correct syntax.
int run_tool(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

// nvidia-smi --gpu-reset -i GPU, and no other function of that program; refused while a process uses the GPU.
int run_nvidia_smi(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

}  // namespace tranche::sim
