#pragma once
// File, variables and flags → the effective configuration, with all Problems and, for each setting, the origin of its
// value. Precedence: flag, variable, file, default, with NVIDIA's rules for values that are present and empty. The
// state of the node (is there a driver library?) is not checked here. Pure.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"
#include "config/keys.h"
#include "config/parse/parse.h"

namespace tranche::config {

// The command line: any spelling of a flag without dashes → its values in order. A switch without a value is "true".
using GivenFlags = std::map<std::string, std::vector<std::string>, std::less<>>;
using Environment = std::map<std::string, std::string, std::less<>>;
// `otherwise` where it is not set.
std::string variable(const Environment& environment, std::string_view name, std::string_view otherwise = {});
std::optional<bool> parse_switch(std::string_view text);  // the boolean values of flags and variables, which are Go's

// What determines a program's configuration beside the file.
struct Invocation {
  GivenFlags flags{};
  Environment environment{};  // of the process
  UnknownKeys unknown_keys = UnknownKeys::kWarned;
};

enum class Source { kDefault, kFile, kVariable, kFlag };
ENUM_NAMES(Source::kFlag, "default", "file", "variable", "flag")

struct Explained {
  std::string path;
  std::string value;
  Source source = Source::kDefault;
  std::string where;  // "config.yaml:3:5", "$MIG_STRATEGY", "--mig-strategy", "default"
  friend bool operator==(const Explained&, const Explained&) = default;
};

struct Resolved {
  Config config;                     // valid only if !has_error(problems)
  std::vector<Problem> problems;     // the file's first, then in NVIDIA's order of validation
  std::vector<Explained> explained;  // in the order of the settings' table, then settings that only files can have
  friend bool operator==(const Resolved&, const Resolved&) = default;
};

// NVIDIA's plugin exits if sharing is MPS without an mpsRoot; Tranche uses this one, the default of NVIDIA's chart.
inline constexpr std::string_view kDefaultMpsRoot = "/run/nvidia/mps";

Resolved resolve(const Parsed& file, Program program, const Invocation& invocation);

// The configuration file to read, "" if none is given.
std::string config_file_of(Program program, const Invocation& invocation);

// The result for people and for programs: its Problems, and for every setting the effective value and its origin.
// `tranche check`, `tranche plan --explain` and the log show it.

// One line per Problem, then a line that counts them. `path` is the file, "" if none is given.
std::string problems_text(std::string_view path, const std::vector<Problem>& problems);

// A table of path, value and place, one line per setting.
std::string explained_text(const std::vector<Explained>& explained);

// Both as one JSON document (docs/guide/configure.md); `explained` may be nullptr.
nlohmann::ordered_json report_json(std::string_view path, const std::vector<Problem>& problems,
                                   const std::vector<Explained>* explained);

// "flags.migStrategy=single ($MIG_STRATEGY), …": the settings that are not defaults, in one line for the log.
std::string given_line(const std::vector<Explained>& explained);

// The whole configuration for the log: JSON on one line, which parse() reads back to an equal Config (except Places).
std::string render_line(const Config& config);

}  // namespace tranche::config
