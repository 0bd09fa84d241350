// The command line of sim-cuda, one word a line, and the lines that it obeys: pods of tests and people write them.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "standins/cuda/sim_cuda_options.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::sim;
  std::istringstream text(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> words;
  for (std::string word; std::getline(text, word);) words.push_back(word);
  std::string problem;
  const auto options = parse_sim_cuda_options(words, &problem);
  if (options.has_value() != problem.empty()) std::abort();
  if (options) {
    if (options->queue < 1 || options->kernel_ns < 0 || options->seconds_ns < 0 || options->report_ns < 0) std::abort();
    if (options->on_term && (options->on_term->file.empty() || options->on_term->seconds_ns < 0)) std::abort();
    if (options->on_term && options->on_term->seconds_ns > INT64_MAX / kSavedParts) std::abort();
  }
  for (const auto& word : words) {
    const auto line = parse_sim_cuda_line(word);
    if (line.kernel_ns < 0 || line.count < 0) std::abort();
  }
  return 0;
}
