#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/utf8.h"

namespace tranche {
namespace {

constexpr std::string_view kBlank = " \t\r\n\v\f";

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const auto at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto at = text.find('\n');
    std::string_view line = text.substr(0, at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const auto first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return words;
    text.remove_prefix(first);
    const auto end = text.find_first_of(kBlank);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end);
  }
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text, int base) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_signed(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const auto shown = first_bytes(text, kLongest);
  return '"' + visible_text(shown, "\"\\") + (shown.size() < text.size() ? "…\"" : "\"");
}

std::string in_markup(std::string_view text) {
  static constexpr std::string_view kMarks = "&<>\"'";
  static constexpr std::string_view kWritten[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string out;
  for (;;) {
    const auto at = text.find_first_of(kMarks);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += kWritten[kMarks.find(text[at])];
    text.remove_prefix(at + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const auto& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

std::string text_of_all(std::span<const std::string_view> words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text.append(i == 0 ? "" : i + 1 == words.size() ? last : ", ").append(words[i]);
  return text;
}

std::string count_text(std::uint64_t n, std::string_view one) {
  return std::to_string(n) + " " + std::string(one) + (n == 1 ? "" : one.ends_with("s") ? "es" : "s");
}

// Two units are precise enough for people.
std::string lasted(std::uint64_t ms) {
  const std::uint64_t seconds = ms / 1000;
  const std::uint64_t minutes = seconds / 60;
  const std::uint64_t hours = minutes / 60;
  if (hours >= 24) return fmt::format("{}d {}h", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{}h {}m", hours, minutes % 60);
  return minutes > 0 ? fmt::format("{}m", minutes) : fmt::format("{}s", seconds);
}

bool same_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

std::string hex16(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

std::string uuid_text(std::span<const std::uint8_t, 16> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  return text;
}

}  // namespace tranche
