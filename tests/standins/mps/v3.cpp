#include "standins/mps/v3.h"

#include <algorithm>

#include "standins/mps/commands.h"

namespace tranche::sim {
namespace {

std::string in_csv(const std::string& field) {
  return field.find(',') == std::string::npos ? field : '"' + field + '"';
}

}  // namespace

std::string V3Command::option(const std::string& name) const {
  const auto found = options.find(name);
  return found == options.end() ? std::string() : found->second;
}

V3Command parse_v3(std::string_view line) {
  V3Command command;
  const auto split = parse_command(line);
  command.module = split.name;
  for (std::string word : split.args) {
    const bool flag = word.starts_with("--");
    if (flag) word.erase(0, 2);
    const auto equals = word.find('=');
    if (flag || equals != std::string::npos) {
      command.options[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
    } else if (command.verb.empty()) {
      command.verb = word;
    } else {
      command.words.push_back(word);
    }
  }
  return command;
}

bool is_v3_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

std::optional<std::uint64_t> v3_size(std::string_view text) {
  if (text.size() < 2 || text.size() > 12) return std::nullopt;
  const unsigned shift = text.back() == 'G' ? 30 : text.back() == 'M' ? 20 : text.back() == 'K' ? 10 : 0;
  text.remove_suffix(1);
  const bool number = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  const auto value = loose_number(text);
  if (shift == 0 || !number || value <= 0 || value > (std::int64_t{1} << 32)) return std::nullopt;
  return static_cast<std::uint64_t>(value) << shift;
}

std::optional<double> v3_percentage(std::string_view text) {
  const bool number =
      !text.empty() && text.size() <= 3 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  const auto value = loose_number(text);
  if (!number || value < 1 || value > 100) return std::nullopt;
  return static_cast<double>(value);
}

std::string v3_size_text(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + "M";
}

std::string v3_table(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                     const std::string& format) {
  std::vector<std::vector<std::string>> all;
  if (!format.ends_with("noheader")) all.push_back(heading);
  all.insert(all.end(), rows.begin(), rows.end());
  std::string text;
  for (const auto& row : all) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (format.starts_with("csv")) {
        text += (i == 0 ? "" : ",") + in_csv(row[i]);
        continue;
      }
      std::size_t width = 0;
      for (const auto& other : all) width = std::max(width, other[i].size());
      text += row[i] + std::string(i + 1 == row.size() ? 0 : width + 2 - row[i].size(), ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace tranche::sim
