#pragma once
// What the two small programs of src/termination/programs read: their command lines, the runtime wrapper's two files,
// and the answer of a drain socket. They are linked without the C++ library, so nothing here allocates or throws, and
// every text that comes out lies inside the one that went in. Pure; any thread; fuzzed.
#include <cstdint>
#include <span>
#include <string_view>

namespace tranche::stopping {

inline constexpr std::string_view kDrainProgram = "tranche-drain";
inline constexpr std::string_view kDrainSocketInContainer = "/run/tranche/mps/drain";

// "300ms", "5s", "1m" → milliseconds, from 1 ms to 10 minutes; 0 = not such a duration.
int milliseconds_of(std::string_view text);

struct DrainWords {
  enum class Do { kDrain, kHelp, kVersion, kRefuse };
  Do what = Do::kDrain;
  std::string_view refused;  // the word that cannot be used, with kRefuse
  std::string_view socket = kDrainSocketInContainer;
  int timeout_ms = 5000;
  bool strict = false;
  int command_at = 0;  // index in argv of the user's own command; 0 = none
};
// argv[0] is the program's name. The user's command is what stands behind "--".
DrainWords read_drain_words(std::span<const char* const> argv);

// Whether an OCI runtime is asked to signal a container, and which: `[global flags] kill [--all|-a] <id> [signal]`.
// Empty for every other call, for a signal that only asks whether the process lives (0), and for anything that we are
// not sure to read as the runtime does (a flag that we do not know may take the next word).
struct KillWords {
  std::string_view container;
  int signal = 0;  // 0: a name that we do not know
};
KillWords read_kill_words(std::span<const char* const> argv);

// Whether an OCI runtime is asked to make a container: `[global flags] create|run|restore …`.
bool makes_container(std::span<const char* const> argv);

// A container's name as runtimes take it, which is also a file's name: letters, digits, "_+-." and no dot in front.
bool is_container_id(std::string_view id);

// `/etc/tranche/runtime.conf`: lines `key=value`; "#" begins a comment. Unknown keys are left for newer programs.
struct RuntimeConf {
  std::string_view runtime;                   // the real runtime, an absolute path; "" = runc from PATH
  std::string_view run_dir = "/run/tranche";  // `tranche node --run-dir`
  std::string_view refused = {};              // the last value that is no absolute path, or unknown key
};
RuntimeConf read_runtime_conf(std::string_view text);

// `<run-dir>/containers/<id>`, written by the agent: which endpoint a container that runs now holds. Nothing in `drain`
// when it cannot be used.
struct ContainerRecord {
  std::string_view pool;
  std::string_view grant;
  std::string_view drain;  // the endpoint's drain socket on the node
};
ContainerRecord read_container_record(std::string_view text);

// Whether a drain socket's line says that all is drained: an object whose own "ok" is true.
bool says_ok(std::string_view line);

}  // namespace tranche::stopping
