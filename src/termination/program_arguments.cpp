#include "termination/program_arguments.h"

#include <array>

namespace tranche::stopping {
namespace {

// string_view::substr can throw, and these programs cannot catch.
std::string_view from(std::string_view text, std::size_t at) {
  text.remove_prefix(at < text.size() ? at : text.size());
  return text;
}

std::string_view before(std::string_view text, std::size_t at) {
  if (at < text.size()) text.remove_suffix(text.size() - at);
  return text;
}

std::string_view without_blanks(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

template <class OnPair>
void for_each_pair(std::string_view text, OnPair on_pair) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = without_blanks(before(text, end));
    text = from(text, end == std::string_view::npos ? text.size() : end + 1);
    const auto equals = line.find('=');
    if (line.empty() || line.front() == '#' || equals == std::string_view::npos) continue;
    on_pair(without_blanks(before(line, equals)), without_blanks(from(line, equals + 1)));
  }
}

bool is_path(std::string_view text) {
  if (text.empty() || text.front() != '/') return false;
  for (const char c : text)
    if (c < ' ' || c == 0x7f) return false;
  return true;
}

bool one_of(std::string_view word, std::span<const std::string_view> words) {
  for (const auto each : words)
    if (each == word) return true;
  return false;
}

// "--name" or "--name=value"; Go's flags also take one dash.
struct Flag {
  std::string_view name;
  bool has_value = false;
};

Flag flag_of(std::string_view word) {
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  const auto equals = word.find('=');
  return {before(word, equals), equals != std::string_view::npos};
}

bool is_flag(std::string_view word) {
  return word.size() > 1 && word.front() == '-';
}

// The value of `--name value` and `--name=value`; false if it is missing.
bool value_of(std::span<const char* const> argv, std::size_t& at, std::string_view& value) {
  const std::string_view word = argv[at];
  const auto equals = word.find('=');
  if (equals != std::string_view::npos) {
    value = from(word, equals + 1);
    return true;
  }
  if (at + 1 >= argv.size()) return false;
  value = argv[++at];
  return true;
}

// "9", "KILL", "SIGKILL" and the notations of stop signals in images; 0 for any other.
int signal_of(std::string_view text) {
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      number = -1;
      break;
    }
    number = number * 10 + (c - '0');
    if (number > 64) return 0;
  }
  if (number > 0) return number;
  struct Named {
    std::string_view name;
    int number;
  };
  constexpr std::array<Named, 7> kNamed{
      {{"HUP", 1}, {"INT", 2}, {"QUIT", 3}, {"KILL", 9}, {"USR1", 10}, {"USR2", 12}, {"TERM", 15}}};
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (const auto& [name, known] : kNamed)
    if (name == text) return known;
  return 0;
}

// Global flags of runc and crun.
constexpr std::array<std::string_view, 6> kWithValue{"root", "log", "log-format", "criu", "rootless", "cgroup-manager"};
constexpr std::array<std::string_view, 2> kSwitches{"debug", "systemd-cgroup"};

// Index of the subcommand; the size of argv if it cannot be determined with certainty.
std::size_t subcommand_at(std::span<const char* const> argv) {
  for (std::size_t at = 1; at < argv.size(); ++at) {
    const std::string_view word = argv[at];
    if (!is_flag(word)) return at;
    const auto flag = flag_of(word);
    if (one_of(flag.name, kWithValue)) {
      if (!flag.has_value) ++at;
    } else if (!one_of(flag.name, kSwitches)) {
      return argv.size();
    }
  }
  return argv.size();
}

// Skips one JSON string; returns the position after it, or npos.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return std::string_view::npos;
}

bool value_is_true(std::string_view behind_key) {
  behind_key = without_blanks(behind_key);
  if (behind_key.empty() || behind_key.front() != ':') return false;
  behind_key = without_blanks(from(behind_key, 1));
  if (!behind_key.starts_with("true")) return false;
  const auto rest = without_blanks(from(behind_key, 4));
  return rest.starts_with(',') || rest.starts_with('}');
}

}  // namespace

int milliseconds_of(std::string_view text) {
  constexpr int kLongest = 600'000;
  long value = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    value = value * 10 + (text[digits] - '0');
    if (value > kLongest) return 0;
  }
  const auto unit = from(text, digits);
  const long scale = unit == "ms" ? 1 : unit == "s" ? 1000 : unit == "m" ? 60'000 : 0;
  return digits > 0 && value * scale <= kLongest ? static_cast<int>(value * scale) : 0;
}

DrainArguments read_drain_arguments(std::span<const char* const> argv) {
  DrainArguments arguments;
  const auto refuse = [&arguments](std::string_view word) {
    arguments.what = DrainArguments::Do::kRefuse;
    arguments.refused = word;
    return arguments;
  };
  for (std::size_t at = 1; at < argv.size(); ++at) {
    const std::string_view word = argv[at];
    if (word == "--") {
      if (at + 1 < argv.size()) arguments.command_at = static_cast<int>(at + 1);
      return arguments;
    }
    const auto flag = is_flag(word) ? flag_of(word) : Flag{};
    std::string_view value;
    if (flag.name == "socket") {
      if (!value_of(argv, at, value) || !is_path(value)) return refuse(word);
      arguments.socket = value;
    } else if (flag.name == "timeout") {
      if (!value_of(argv, at, value) || (arguments.timeout_ms = milliseconds_of(value)) == 0) return refuse(word);
    } else if (word == "--strict") {
      arguments.strict = true;
    } else if (word == "--help" || word == "-h") {
      arguments.what = DrainArguments::Do::kHelp;
      return arguments;
    } else if (word == "--version") {
      arguments.what = DrainArguments::Do::kVersion;
      return arguments;
    } else {
      return refuse(word);
    }
  }
  return arguments;
}

bool is_container_id(std::string_view id) {
  if (id.empty() || id.size() > 255 || id.front() == '.') return false;
  for (const char c : id) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      c == '+' || c == '-' || c == '.';
    if (!fine) return false;
  }
  return true;
}

KillArguments read_kill_arguments(std::span<const char* const> argv) {
  std::size_t at = subcommand_at(argv);
  if (at >= argv.size() || std::string_view(argv[at]) != "kill") return {};
  for (++at; at < argv.size() && is_flag(argv[at]); ++at) {
    const std::string_view word = argv[at];
    if (word != "--all" && word != "-a" && word != "--pid") return {};
  }
  if (at >= argv.size() || argv.size() - at > 2) return {};
  const std::string_view container = argv[at];
  const std::string_view signal = at + 1 < argv.size() ? argv[at + 1] : "15";
  if (!is_container_id(container) || signal == "0") return {};
  return {container, signal_of(signal)};
}

bool makes_container(std::span<const char* const> argv) {
  const auto at = subcommand_at(argv);
  constexpr std::array<std::string_view, 3> kMakes{"create", "run", "restore"};
  return at < argv.size() && one_of(argv[at], kMakes);
}

RuntimeConf read_runtime_conf(std::string_view text) {
  RuntimeConf conf;
  for_each_pair(text, [&conf](std::string_view key, std::string_view value) {
    auto* const into = key == "runtime" ? &conf.runtime : key == "run-dir" ? &conf.run_dir : nullptr;
    if (into == nullptr || !is_path(value)) {
      conf.refused = into == nullptr ? key : value;
    } else {
      *into = value;
    }
  });
  return conf;
}

ContainerRecord read_container_record(std::string_view text) {
  ContainerRecord record;
  for_each_pair(text, [&record](std::string_view key, std::string_view value) {
    if (key == "pool") record.pool = value;
    if (key == "grant") record.grant = value;
    if (key == "drain" && is_path(value)) record.drain = value;
  });
  return record;
}

bool says_ok(std::string_view line) {
  line = without_blanks(before(line, line.find('\n')));
  if (!line.starts_with('{') || !line.ends_with('}')) return false;
  int depth = 0;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c == '"') {
      const auto end = behind_string(line, at);
      if (end == std::string_view::npos) return false;
      if (depth == 1 && before(from(line, at), end - at) == "\"ok\"" && value_is_true(from(line, end))) return true;
      at = end;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return false;
}

}  // namespace tranche::stopping
