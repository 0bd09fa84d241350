// libFuzzer's program for every fuzz target: the name that it is started by, fuzz_<target>, says which one runs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz/table.h"

namespace {
int (*target)(const std::uint8_t* data, std::size_t size) = nullptr;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  std::string_view name = (*argv)[0];
  name.remove_prefix(name.rfind("fuzz_") == std::string_view::npos ? 0 : name.rfind("fuzz_") + 5);
  const auto found = std::ranges::find(fuzz_targets(), name, &FuzzTarget::name);
  if (found == fuzz_targets().end()) {
    std::fprintf(stderr, "fuzzer: no such target: %s; start it as fuzz_<target>\n", (*argv)[0]);
    std::exit(2);
  }
  target = found->run;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return target(data, size);
}
