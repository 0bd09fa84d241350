#include "standins/kubelet/yaml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace tranche::sim {
namespace {

bool is_quoted(const YAML::Node& node) {
  return node.Tag() == "!";
}

// Whether the API server would read this plain scalar as a type other than string.
bool reads_as_another_type(std::string_view text) {
  static constexpr std::array<std::string_view, 10> kWords = {"",     "~",    "null",  "Null",  "NULL",
                                                              "true", "True", "false", "False", "TRUE"};
  if (std::ranges::find(kWords, text) != kWords.end() || text == "FALSE") return true;
  const bool numeric = text.find_first_not_of("0123456789+-.eE_") == std::string_view::npos;
  return numeric && text.find_first_of("0123456789") != std::string_view::npos &&
         text.find_first_of("0123456789+-.") == 0;
}

}  // namespace

void PodsYamlReader::complain(Severity severity, const YAML::Node& at, const std::string& path, std::string what,
                              std::string remedy) {
  Place place{.source = source_, .line = 0, .column = 0};
  if (at.IsDefined() && !at.Mark().is_null()) {
    place.line = at.Mark().line + 1;
    place.column = at.Mark().column + 1;
  }
  problems_.push_back({.severity = severity,
                       .place = std::move(place),
                       .path = path,
                       .what = std::move(what),
                       .remedy = std::move(remedy)});
}

void PodsYamlReader::error(const YAML::Node& at, const std::string& path, std::string what, std::string remedy) {
  complain(Severity::kError, at, path, std::move(what), std::move(remedy));
}

void PodsYamlReader::warn(const YAML::Node& at, const std::string& path, std::string what, std::string remedy) {
  complain(Severity::kWarning, at, path, std::move(what), std::move(remedy));
}

YAML::Node PodsYamlReader::get(const YAML::Node& map, std::string_view key) {
  for (const auto& entry : map) {
    if (entry.first.IsScalar() && entry.first.Scalar() == key) return entry.second;
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

bool PodsYamlReader::is_map(const YAML::Node& node, const std::string& path) {
  if (node.IsMap()) return true;
  error(node, path, "must be a map of fields", "write its fields below it, indented, as \"name: value\"");
  return false;
}

bool PodsYamlReader::is_list(const YAML::Node& node, const std::string& path) {
  if (node.IsSequence()) return true;
  error(node, path, "must be a list", "write its entries below it, each beginning with \"- \"");
  return false;
}

std::optional<std::string> PodsYamlReader::text(const YAML::Node& node, const std::string& path) {
  if (!node.IsScalar()) {
    error(node, path, "must be a text", "write one value, for example in double quotes");
    return std::nullopt;
  }
  const std::string& value = node.Scalar();
  if (value.find('\0') != std::string::npos) {
    error(node, path, "holds a zero byte", "leave it out: no program can be given it");
    return std::nullopt;
  }
  if (!is_quoted(node) && reads_as_another_type(value)) {
    error(node, path, fmt::format("must be a text, but {} is read as another type", in_quotes(value)),
          fmt::format("write it in quotes: \"{}\"", value));
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint64_t> PodsYamlReader::whole_number(const YAML::Node& node, const std::string& path,
                                                          std::uint64_t largest) {
  const auto number = node.IsScalar() ? parse_unsigned(node.Scalar()) : std::nullopt;
  if (number && *number <= largest) return number;
  error(node, path,
        node.IsScalar()
            ? fmt::format("must be a whole number from 0 to {}, but is {}", largest, in_quotes(node.Scalar()))
            : fmt::format("must be a whole number from 0 to {}", largest),
        "write for example 1");
  return std::nullopt;
}

std::vector<std::string> PodsYamlReader::texts(const YAML::Node& list, const std::string& path) {
  std::vector<std::string> result;
  if (!list.IsDefined() || !is_list(list, path)) return result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (auto entry = text(list[i], fmt::format("{}[{}]", path, i))) result.push_back(std::move(*entry));
  }
  return result;
}

void PodsYamlReader::check_keys(const YAML::Node& map, const std::string& path,
                                std::initializer_list<std::string_view> used,
                                std::initializer_list<std::string_view> read_over) {
  std::vector<std::string_view> known(used);
  known.insert(known.end(), read_over);
  std::vector<std::string> seen;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) {
      error(entry.first, path, "has a key that is not a word", "write a field name before the colon");
      continue;
    }
    const std::string& key = entry.first.Scalar();
    const std::string full = path.empty() ? key : path + "." + key;
    if (std::ranges::find(seen, key) != seen.end()) {
      error(entry.first, full, "is written twice", "keep one of the two");
    }
    seen.push_back(key);
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string meant = did_you_mean(key, known);
    warn(entry.first, full, "is not a field that Kubernetes knows here, and is read over",
         meant.empty() ? "leave it out" : fmt::format("did you mean {}?", meant));
  }
}

}  // namespace tranche::sim
