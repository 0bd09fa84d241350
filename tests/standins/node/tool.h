#pragma once
// The `sim-node` command: makes a simulated node and changes it while stand-ins run on it. Takes words, gives text and
// an exit status; main() is in sim_node_main.cpp.
#include <iosfwd>
#include <string>
#include <vector>

namespace tranche::sim {

// 0 done, 1 it could not be done, 2 the words are wrong. Complaints go to `err` and say what to write.
int run_tool(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

// nvidia-smi --gpu-reset -i GPU, and nothing else of that program; refused while a process is on the GPU.
int run_nvidia_smi(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

}  // namespace tranche::sim
