#include <iostream>

#include "tool.h"

int main(int argc, char** argv) {
  return tranche::sim::run_tool({argv + 1, argv + argc}, std::cout, std::cerr);
}
