// Runs one fuzz target over files or folders of inputs: the corpus check of builds without libFuzzer.
//   fuzz_replay slot_id tests/fuzz/corpus/slot_id
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/table.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const auto target = argc < 2 ? fuzz_targets().end() : std::ranges::find(fuzz_targets(), argv[1], &FuzzTarget::name);
  if (target == fuzz_targets().end()) {
    std::fprintf(stderr, "fuzz_replay: no such target: %s\n", argc < 2 ? "" : argv[1]);
    return 2;
  }
  std::size_t count = 0;
  const auto replay = [&](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string input((std::istreambuf_iterator<char>(file)), {});
    target->run(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++count;
  };
  for (int i = 2; i < argc; ++i) {
    if (fs::is_directory(argv[i])) {
      for (const auto& entry : fs::directory_iterator(argv[i])) replay(entry.path());
    } else {
      replay(argv[i]);
    }
  }
  std::printf("%zu inputs replayed\n", count);
  return count == 0 ? 1 : 0;  // an empty corpus is a check that cannot fail
}
