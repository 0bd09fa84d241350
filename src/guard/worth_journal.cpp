#include "guard/worth_journal.h"

#include <limits>

#include "base/text.h"

namespace tranche::guard {
namespace {

constexpr std::string_view kNotTold = "-";
constexpr std::size_t kWordsOfBefore = 5;
constexpr std::size_t kWordsOfGrant = 7;

std::optional<Percent> percent_of(std::string_view word) {
  const auto number = parse_unsigned(word);
  if (!number || *number > Percent::whole(100).hundredths) return std::nullopt;
  return Percent{static_cast<std::uint32_t>(*number)};
}

}  // namespace

std::string render_worths(const Worths& worths) {
  std::string text;
  for (const auto& [key, worth] : worths) {
    text += key.first + ' ' + key.second + ' ' + worth.pool + ' ' + worth.resource + ' ' +
            std::to_string(worth.memory.value);
    if (worth.threads)
      text += ' ' + std::to_string(worth.threads->hundredths) + ' ' +
              (worth.tenant.empty() ? std::string(kNotTold) : worth.tenant);
    text += '\n';
  }
  return text;
}

Worths parse_worths(std::string_view text) {
  Worths worths;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() != kWordsOfGrant && words.size() != kWordsOfBefore) continue;
    const auto bytes = parse_unsigned(words[4]);
    if (!bytes) continue;
    Worth worth{std::string(words[2]), std::string(words[3]), {*bytes}};
    if (words.size() == kWordsOfGrant) {
      worth.threads = percent_of(words[5]);
      if (!worth.threads) continue;
      if (words[6] != kNotTold) worth.tenant = words[6];
    } else if (*bytes == 0) {
      continue;
    }
    worths[{std::string(words[0]), std::string(words[1])}] = std::move(worth);
  }
  return worths;
}

}  // namespace tranche::guard
