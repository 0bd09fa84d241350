#include "grants/change/taken.h"

#include <optional>

#include "base/text.h"

namespace tranche::change {
namespace {

constexpr std::string_view kTold = "told";
constexpr std::string_view kUntold = "untold";

// Up to the next space, which is taken away too; nothing at the end.
std::optional<std::string_view> take_word(std::string_view& line) {
  const auto end = line.find(' ');
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  const auto word = line.substr(0, end);
  line.remove_prefix(end + 1);
  return word;
}

}  // namespace

std::string render_taken(const TakenShares& shares) {
  std::string text;
  for (const auto& [key, taken] : shares)
    text += key.first + ' ' + key.second + ' ' + std::string(taken.told ? kTold : kUntold) + ' ' + taken.text + '\n';
  return text;
}

TakenShares parse_taken(std::string_view text) {
  TakenShares shares;
  for (std::string_view line : lines_of(text)) {
    const auto grant = take_word(line), device = take_word(line), told = take_word(line);
    if (!grant || !device || !told || (*told != kTold && *told != kUntold)) continue;
    shares[{std::string(*grant), std::string(*device)}] = {std::string(trimmed(line)), *told == kTold};
  }
  return shares;
}

}  // namespace tranche::change
