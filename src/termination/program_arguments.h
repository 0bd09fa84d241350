#pragma once
// Parsers for the two small programs of src/termination/programs: their command lines, the runtime wrapper's two files,
// and the reply of a drain socket. The programs are linked without the C++ library, so nothing here allocates or
// throws, and every returned text is a part of the input. Pure; any thread; fuzzed.
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

// Whether the command line signals a container, and which: `[global flags] kill [--all|-a] <id> [signal]`. Empty for
// every other call, for signal 0 (which only tests whether the process lives), and for anything that the runtime might
// parse differently (an unknown flag may have the next word as its value).
struct KillArguments {
  std::string_view container;
  int signal = 0;  // 0: an unknown name
};
KillArguments read_kill_arguments(std::span<const char* const> argv);

// Whether the command line creates a container: `[global flags] create|run|restore …`.
bool makes_container(std::span<const char* const> argv);

// A valid container name of the runtimes, which is also a file name: letters, digits, "_+-." and no leading dot.
bool is_container_id(std::string_view id);

// `/etc/tranche/runtime.conf`: lines `key=value`; "#" begins a comment. Unknown keys are reserved for newer versions.
struct RuntimeConf {
  std::string_view runtime;                   // the real runtime, an absolute path; "" = runc from PATH
  std::string_view run_dir = "/run/tranche";  // `tranche node --run-dir`
  std::string_view refused = {};              // the last value that is not an absolute path, or unknown key
};
RuntimeConf read_runtime_conf(std::string_view text);

// `<run-dir>/containers/<id>`, written by the agent: the endpoint of a running container. `drain` is empty if the
// record is unusable.
struct ContainerRecord {
  std::string_view pool;
  std::string_view grant;
  std::string_view drain;  // the endpoint's drain socket on the node
};
ContainerRecord read_container_record(std::string_view text);

// Whether a drain socket's line reports success: an object whose own "ok" is true.
bool says_ok(std::string_view line);

}  // namespace tranche::stopping
