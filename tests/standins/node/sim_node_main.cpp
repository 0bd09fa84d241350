#include <iostream>
#include <string_view>

#include "tool.h"

int main(int argc, char** argv) {
  const std::string_view name = argc > 0 ? argv[0] : "";
  if (name.ends_with("nvidia-smi")) return tranche::sim::run_nvidia_smi({argv + 1, argv + argc}, std::cout, std::cerr);
  return tranche::sim::run_tool({argv + 1, argv + argc}, std::cout, std::cerr);
}
