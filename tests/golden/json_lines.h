#pragma once
// JSON as expected files have it, so that a review shows a device as one line: an element of an array is one line
// unless it holds values four levels deep, and so is what is short.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace tranche::golden {

inline int depth_of(const nlohmann::ordered_json& value) {
  int deepest = 0;
  if (!value.is_structured()) return 0;
  for (const auto& each : value) deepest = std::max(deepest, depth_of(each));
  return deepest + 1;
}

inline std::string json_lines(const nlohmann::ordered_json& value, std::size_t indent = 0, bool element = false) {
  constexpr std::size_t kShort = 100;
  const std::string line = value.dump();
  if (!value.is_structured() || line.size() + indent <= kShort || (element && depth_of(value) <= 3)) return line;
  const std::string inner = "\n" + std::string(indent + 1, ' ');
  std::string text(1, value.is_array() ? '[' : '{');
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (it != value.begin()) text += ',';
    text += inner;
    if (value.is_object()) text += nlohmann::ordered_json(it.key()).dump() + ": ";
    text += json_lines(*it, indent + 1, value.is_array());
  }
  return text + "\n" + std::string(indent, ' ') + (value.is_array() ? ']' : '}');
}

}  // namespace tranche::golden
