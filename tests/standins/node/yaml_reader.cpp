#include <algorithm>

#include "base/text.h"
#include "yaml_tree.h"

namespace tranche::sim {
namespace {

std::string listed(const std::vector<std::string_view>& words) {
  std::vector<std::string> parts(words.begin(), words.end());
  return join(parts, ", ");
}

}  // namespace

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
