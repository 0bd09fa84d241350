// libFuzzer's program for every fuzz target: the name that it is started by, fuzz_<target>, says which one runs.
#include <algorithm>
#include <cstdio>

#include "fuzz/target.h"

namespace {
void (*target)(std::string_view text) = nullptr;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  std::string_view name = (*argv)[0];
  name.remove_prefix(name.rfind("fuzz_") == std::string_view::npos ? 0 : name.rfind("fuzz_") + 5);
  const auto& targets = tranche::fuzz::targets();
  const auto found = std::ranges::find(targets, name, &tranche::fuzz::Target::name);
  if (found == targets.end()) {
    std::fprintf(stderr, "fuzzer: no such target: %s; start it as fuzz_<target>\n", (*argv)[0]);
    std::exit(2);
  }
  target = found->run;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target({reinterpret_cast<const char*>(data), size});
  return 0;
}
