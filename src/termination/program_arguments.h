#pragma once
// Parsers for tranche-drain (src/termination/programs): its command line, and the reply of a drain socket. It is linked
// without the C++ library, so nothing here allocates or throws, and every returned text is a part of the input. Pure;
// any thread; fuzzed.
#include <cstdint>
#include <span>
#include <string_view>

namespace tranche::stopping {

inline constexpr std::string_view kDrainProgram = "tranche-drain";
inline constexpr std::string_view kDrainSocketInContainer = "/run/tranche/mps/drain";

// "300ms", "5s", "1m" → milliseconds, from 1 ms to 10 minutes; 0 = not a valid duration.
int milliseconds_of(std::string_view text);

struct DrainArguments {
  enum class Do { kDrain, kHelp, kVersion, kRefuse };
  Do what = Do::kDrain;
  std::string_view refused;  // the unusable word, with kRefuse
  std::string_view socket = kDrainSocketInContainer;
  int timeout_ms = 5000;
  bool strict = false;
  int command_at = 0;  // index in argv of the user's own command; 0 = none
};
// argv[0] is the program's name. The user's command follows "--".
DrainArguments read_drain_arguments(std::span<const char* const> argv);

// Whether a drain socket's line reports success: an object whose own "ok" is true.
bool says_ok(std::string_view line);

}  // namespace tranche::stopping
