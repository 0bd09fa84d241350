#pragma once
// FUZZ(name) { … } is a fuzz target: it gets any text, and aborts where a promise does not hold. fuzzer_main.cpp runs
// the target by whose name it is started; cmake/tranche.cmake makes these names from the sources.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace tranche::fuzz {

struct Target {
  std::string_view name;
  void (*run)(std::string_view text);
};
inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}
struct Registered {
  explicit Registered(Target target) { targets().push_back(target); }
};

// Whether a text may stand in a message: UTF-8 on one line without a control character.
inline bool is_harmless(std::string_view text) {
  while (!text.empty()) {
    const auto length = character_at(text);
    if (length == 0 || is_control(text.substr(0, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace tranche::fuzz

#define FUZZ(name)                                                                \
  static void fuzz_##name(std::string_view text);                                 \
  static const tranche::fuzz::Registered registered_##name({#name, fuzz_##name}); \
  static void fuzz_##name([[maybe_unused]] std::string_view text)
