// /proc/self/cgroup → the files with the CPU weight lie below the root; the same text as a weight: a number, or none.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "os/process/cpu_weight.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& file : tranche::host::cpu_weight_files(text)) {
    if (!file.starts_with("/sys/fs/cgroup/")) std::abort();
    if (!file.ends_with("/cpu.weight") && !file.ends_with("/cpu.shares")) std::abort();
    if (file.find("/../") != std::string::npos) std::abort();
    const auto problem = tranche::host::cpu_weight_problem(file, text);
    if (!problem.empty()) std::abort();  // a list of groups is not a weight
  }
  for (const char* file : {"/cpu.weight", "/cpu.shares"})
    if (tranche::host::cpu_weight_problem(file, text).size() > 200) std::abort();
  return 0;
}
