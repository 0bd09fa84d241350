#include "yaml_tree.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::sim {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostItems = 20000;
constexpr int kMostDepth = 32;

class Copier {
 public:
  Copier(std::string source, std::vector<Problem>& problems) : source_(std::move(source)), problems_(problems) {}

  std::optional<YamlItem> copy(const YAML::Node& node, const std::string& path, int depth) {
    YamlItem item;
    const YAML::Mark mark = node.Mark();
    item.place = {source_, mark.line + 1, mark.column + 1};
    item.path = path;
    if (++count_ > kMostItems || depth > kMostDepth) {
      problems_.push_back({Severity::kError, item.place, path, "is too large or too deeply nested",
                           "write it plainly, without aliases that repeat themselves"});
      return std::nullopt;
    }
    if (node.IsScalar()) {
      item.shape = YamlItem::Shape::kText;
      item.text = node.Scalar();
    } else if (node.IsSequence()) {
      item.shape = YamlItem::Shape::kList;
      for (std::size_t i = 0; i < node.size(); ++i) {
        auto child = copy(node[i], path + "[" + std::to_string(i) + "]", depth + 1);
        if (!child) return std::nullopt;
        item.entries.emplace_back(std::string(), std::move(*child));
      }
    } else if (node.IsMap()) {
      item.shape = YamlItem::Shape::kMap;
      if (!copy_map(node, item, depth)) return std::nullopt;
    }
    return item;
  }

 private:
  bool copy_map(const YAML::Node& node, YamlItem& item, int depth) {
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
      if (item.find(key) != nullptr) {
        const YAML::Mark mark = entry.first.Mark();
        problems_.push_back({Severity::kError,
                             {source_, mark.line + 1, mark.column + 1},
                             item.path,
                             in_quotes(key) + " is written twice",
                             "keep one of them"});
      }
      auto child = copy(entry.second, item.path.empty() ? key : item.path + "." + key, depth + 1);
      if (!child) return false;
      if (child->shape == YamlItem::Shape::kNothing) {  // an empty value carries no place of its own
        const YAML::Mark mark = entry.first.Mark();
        child->place = {source_, mark.line + 1, mark.column + 1};
      }
      item.entries.emplace_back(key, std::move(*child));
    }
    return true;
  }

  std::string source_;
  std::vector<Problem>& problems_;
  std::size_t count_ = 0;
};

std::string listed(const std::vector<std::string_view>& words) {
  std::vector<std::string> parts(words.begin(), words.end());
  return join(parts, ", ");
}

}  // namespace

const YamlItem* YamlItem::find(std::string_view name) const {
  if (shape != Shape::kMap) return nullptr;
  for (const auto& [key, item] : entries) {
    if (key == name) return &item;
  }
  return nullptr;
}

std::optional<YamlItem> read_yaml(std::string_view text, const std::string& source, std::vector<Problem>& problems) {
  if (text.size() > kMostBytes) {
    problems.push_back({Severity::kError, {source, 0, 0}, "", "is larger than 1 MiB", "write a smaller file"});
    return std::nullopt;
  }
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    return Copier(source, problems).copy(root, "", 0);
  } catch (const YAML::Exception& e) {  // the one place where the library's exceptions end
    problems.push_back({Severity::kError,
                        {source, std::max(e.mark.line, 0) + 1, std::max(e.mark.column, 0) + 1},
                        "",
                        "is not YAML: " + e.msg,
                        "check the indentation and the brackets of this line"});
  } catch (const std::exception& e) {
    problems.push_back(
        {Severity::kError, {source, 0, 0}, "", std::string("is not YAML: ") + e.what(), "write plain YAML"});
  }
  return std::nullopt;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    int shift;
  };
  for (const Unit unit : {Unit{"TiB", 40}, Unit{"GiB", 30}, Unit{"MiB", 20}, Unit{"KiB", 10}}) {
    if (!text.ends_with(unit.name)) continue;
    const auto number = parse_unsigned(trimmed(text.substr(0, text.size() - unit.name.size())));
    if (!number || *number > (~std::uint64_t{0} >> unit.shift)) return std::nullopt;
    return *number << unit.shift;
  }
  return parse_unsigned(text);
}

void YamlReader::fault(const YamlItem& item, std::string what, std::string remedy) {
  problems_.push_back({Severity::kError, item.place, item.path, std::move(what), std::move(remedy)});
}

bool YamlReader::expect_map(const YamlItem& item, const std::vector<std::string_view>& known) {
  if (item.shape != YamlItem::Shape::kMap) {
    fault(item, "must be a map of names and values", "write for example: " + std::string(known.front()) + ": …");
    return false;
  }
  for (const auto& [key, child] : item.entries) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string meant = did_you_mean(key, known);
    fault(child, in_quotes(key) + " is not a known key here",
          meant.empty() ? "write one of: " + listed(known) : "did you mean " + meant + "?");
  }
  return true;
}

bool YamlReader::expect_list(const YamlItem& item) {
  if (item.shape == YamlItem::Shape::kList) return true;
  fault(item, "must be a list", "write it in brackets: [a, b]");
  return false;
}

void YamlReader::text(const YamlItem& map, std::string_view key, std::string& into) {
  const YamlItem* item = map.find(key);
  if (item == nullptr) return;
  if (item->shape == YamlItem::Shape::kText) {
    into = item->text;
  } else {
    fault(*item, "must be a text", "write one word or a text in quotes");
  }
}

void YamlReader::flag(const YamlItem& map, std::string_view key, bool& into) {
  const YamlItem* item = map.find(key);
  if (item == nullptr) return;
  if (item->text == "true" || item->text == "false") {
    into = item->text == "true";
  } else {
    fault(*item, "must be true or false, but is " + in_quotes(item->text), "write true or false");
  }
}

void YamlReader::number(const YamlItem& map, std::string_view key, std::uint32_t& into, std::uint64_t most) {
  const YamlItem* item = map.find(key);
  if (item == nullptr) return;
  const std::string_view text = item->text;
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const auto value = hex ? parse_unsigned(text.substr(2), 16) : parse_unsigned(text);
  if (!value || *value > most) {
    fault(*item, "must be a whole number up to " + std::to_string(most) + ", but is " + in_quotes(text),
          "write for example: " + std::string(key) + ": 1");
    return;
  }
  into = static_cast<std::uint32_t>(*value);
}

void YamlReader::signed_number(const YamlItem& map, std::string_view key, std::int32_t& into) {
  const YamlItem* item = map.find(key);
  if (item == nullptr) return;
  const auto value = parse_signed(item->text);
  if (!value || *value < -1 || *value > 4096) {
    fault(*item, "must be a whole number from -1 to 4096, but is " + in_quotes(item->text), "write for example: -1");
    return;
  }
  into = static_cast<std::int32_t>(*value);
}

void YamlReader::bytes(const YamlItem& map, std::string_view key, std::uint64_t& into) {
  const YamlItem* item = map.find(key);
  if (item == nullptr) return;
  if (const auto value = parse_bytes(item->text)) {
    into = *value;
  } else {
    fault(*item, "must be an amount of memory, but is " + in_quotes(item->text), "write for example: 143771MiB");
  }
}

bool YamlReader::required(const YamlItem& map, std::string_view key) {
  if (map.find(key) != nullptr) return true;
  fault(map, in_quotes(key) + " is missing", "write " + std::string(key) + ": …");
  return false;
}

}  // namespace tranche::sim
