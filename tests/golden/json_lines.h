#pragma once
// Expected files as a review reads them: JSON with one line a device, a pool or a pod, and labels with one line a
// prefix.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tranche::golden {

inline int depth_of(const nlohmann::ordered_json& value) {
  int deepest = 0;
  if (!value.is_structured()) return 0;
  for (const auto& each : value) deepest = std::max(deepest, depth_of(each));
  return deepest + 1;
}

// A short value is one line, and so is an element of an array unless it is long and four levels deep.
inline std::string json_lines(const nlohmann::ordered_json& value, std::size_t indent = 0, bool element = false) {
  constexpr std::size_t kShort = 100;
  constexpr std::size_t kLongElement = 480;
  const std::string line = value.dump();
  if (!value.is_structured() || line.size() + indent <= kShort) return line;
  if (element && (depth_of(value) <= 3 || line.size() <= kLongElement)) return line;
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

// Labels that are not so in `than` → "nvidia.com/gpu: count=2 product=NVIDIA-H200": keys that differ only behind their
// last dot share a line. Then those that are only there: "without nvidia.com/mig.strategy".
using Labels = std::map<std::string, std::string>;
inline std::vector<std::string> label_lines(const Labels& labels, const Labels& than = {}) {
  std::map<std::string, std::string> lines;
  for (const auto& [key, value] : labels) {
    const auto before = than.find(key);
    if (before != than.end() && before->second == value) continue;
    const auto dot = key.rfind('.');
    lines[key.substr(0, dot) + ":"] += " " + key.substr(dot + 1) + "=" + value;
  }
  std::vector<std::string> texts;
  for (const auto& [prefix, values] : lines) texts.push_back(prefix + values);
  for (const auto& [key, value] : than)
    if (!labels.contains(key)) texts.push_back("without " + key);
  return texts;
}

}  // namespace tranche::golden
