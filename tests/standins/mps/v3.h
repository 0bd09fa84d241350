#pragma once
// The syntax of interface version 3 (release 615): command lines, valid names, sizes, and printed lists. Written from
// NVIDIA's manual; the texts of refusals are original. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::sim {

struct V3Command {
  std::string module, verb;
  std::vector<std::string> words;              // positional
  std::map<std::string, std::string> options;  // "--key=value" and "key=value"; a flag's value is ""
  bool has(const std::string& option) const { return options.contains(option); }
  std::string option(const std::string& name) const;  // "" when absent
};
V3Command parse_v3(std::string_view line);

bool is_v3_name(std::string_view name);                       // [a-z0-9_], 1 to 64
std::optional<std::uint64_t> v3_size(std::string_view text);  // "4G", "512M", "1024K"
std::optional<double> v3_percentage(std::string_view text);   // 1 to 100
std::string v3_size_text(std::uint64_t bytes);                // whole M

// `format`: "csv", "csv,noheader", or a table with columns as wide as needed.
std::string v3_table(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                     const std::string& format);

}  // namespace tranche::sim
