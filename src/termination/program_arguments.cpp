#include "termination/program_arguments.h"

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

bool is_path(std::string_view text) {
  if (text.empty() || text.front() != '/') return false;
  for (const char c : text)
    if (c < ' ' || c == 0x7f) return false;
  return true;
}

// The name in "--name" or "--name=value", also with one dash; "" of other words.
std::string_view flag_of(std::string_view word) {
  if (word.size() < 2 || word.front() != '-') return {};
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  return before(word, word.find('='));
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
    const auto flag = flag_of(word);
    std::string_view value;
    if (flag == "socket") {
      if (!value_of(argv, at, value) || !is_path(value)) return refuse(word);
      arguments.socket = value;
    } else if (flag == "timeout") {
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
