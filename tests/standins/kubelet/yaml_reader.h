#pragma once
// Reads one YAML document and reports every error with its place: file, line, column, the field's usual notation, and a
// remedy. Used inside parse_pods only, which catches yaml-cpp's exceptions.
#include <yaml-cpp/yaml.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/problem.h"

namespace tranche::sim {

class PodsYamlReader {
 public:
  PodsYamlReader(std::string source, std::vector<Problem>& problems)
      : source_(std::move(source)), problems_(problems) {}

  void error(const YAML::Node& at, const std::string& path, std::string what, std::string remedy);
  void warn(const YAML::Node& at, const std::string& path, std::string what, std::string remedy);

  // The value of `key`, or an undefined node. `map` must be a map.
  static YAML::Node get(const YAML::Node& map, std::string_view key);
  bool is_map(const YAML::Node& node, const std::string& path);  // reports any other type
  bool is_list(const YAML::Node& node, const std::string& path);
  // A string: a plain number, boolean or null is refused, as in the API server.
  std::optional<std::string> text(const YAML::Node& node, const std::string& path);
  std::optional<std::uint64_t> whole_number(const YAML::Node& node, const std::string& path, std::uint64_t largest);
  std::vector<std::string> texts(const YAML::Node& list, const std::string& path);
  // Warns about keys that are in neither list, with the most similar key.
  void check_keys(const YAML::Node& map, const std::string& path, std::initializer_list<std::string_view> used,
                  std::initializer_list<std::string_view> read_over);

 private:
  void complain(Severity severity, const YAML::Node& at, const std::string& path, std::string what, std::string remedy);

  std::string source_;
  std::vector<Problem>& problems_;
};

}  // namespace tranche::sim
