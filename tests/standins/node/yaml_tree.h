#pragma once
// YAML as a plain tree with places. A minimal parser for the part of YAML that people write by hand: maps, lists,
// texts, quotes, comments, brackets; no anchors, tags or block texts. Two reasons: a stand-in library is loaded into
// any program and must not bring a YAML library with it, and the packaged static one cannot be linked into a shared
// object. Never throws; deep or large input is refused. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tranche::sim {

struct YamlEntry;
struct YamlItem {
  enum class Shape { kNothing, kText, kList, kMap };
  Shape shape = Shape::kNothing;
  std::string text;
  std::vector<YamlEntry> entries;  // of a map, in order; of a list, with empty names
  Place place;
  std::string path;  // "gpus[0].mig"

  const YamlItem* find(std::string_view name) const;
};
struct YamlEntry {
  std::string name;
  YamlItem item;
};

// Absent if the text is not valid YAML or too large; the Problem says which.
std::optional<YamlItem> read_yaml(std::string_view text, const std::string& source, std::vector<Problem>& problems);

// Typed access with a Problem for every mismatch. Absent items keep the default and are not an error.
class YamlReader {
 public:
  explicit YamlReader(std::vector<Problem>& problems) : problems_(problems) {}

  // The item must be a map with only these keys.
  bool expect_map(const YamlItem& item, const std::vector<std::string_view>& known);
  bool expect_list(const YamlItem& item);
  void text(const YamlItem& map, std::string_view key, std::string& into);
  void flag(const YamlItem& map, std::string_view key, bool& into);
  void number(const YamlItem& map, std::string_view key, std::uint32_t& into, std::uint64_t most = 0xffffffff);
  void signed_number(const YamlItem& map, std::string_view key, std::int32_t& into);
  void bytes(const YamlItem& map, std::string_view key, std::uint64_t& into);  // "143771MiB", "10GiB", "644939776"
  bool required(const YamlItem& map, std::string_view key);
  void fault(const YamlItem& item, std::string what, std::string remedy);

 private:
  std::vector<Problem>& problems_;
};

std::optional<std::uint64_t> parse_bytes(std::string_view text);  // "10GiB", "512MiB", "4096"

}  // namespace tranche::sim
