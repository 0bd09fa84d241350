#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace tranche {
namespace {

constexpr std::string_view kBlank = " \t\r\n\v\f";
constexpr std::size_t kSmallest = 1024;  // of a block of a LongText; the next ones are as large as the text is by then

void put_escaped(std::string& out, std::string_view bytes) {
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
}

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

std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto follows = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const std::uint8_t low = first == 0xe0 ? 0xa0 : 0x80;
    const std::uint8_t high = first == 0xed ? 0x9f : 0xbf;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const std::uint8_t low = first == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = first == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  return character.size() == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;
}

std::string_view first_bytes(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

std::string cut_text(std::string_view text, std::size_t most_bytes) {
  constexpr std::string_view kMore = "…";
  if (text.size() <= most_bytes) return std::string(text);
  if (most_bytes < kMore.size()) return {};
  return std::string(first_bytes(text, most_bytes - kMore.size())) + std::string(kMore);
}

std::string visible_text(std::string_view text, std::string_view marked) {
  std::string out;
  while (!text.empty()) {
    const auto length = character_at(text);
    const auto character = text.substr(0, length == 0 ? 1 : length);
    if (character == "\n") {
      out += "\\n";
    } else if (length == 0 || is_control(character)) {
      put_escaped(out, character);
    } else {
      if (length == 1 && marked.contains(character[0])) out += '\\';
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

void LineReader::complete(std::vector<std::string>& lines) {
  if (!skipping_) {
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    lines.push_back(std::move(line_));
  }
  line_.clear();
  skipping_ = false;
}

std::vector<std::string> LineReader::take(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto piece = bytes.substr(0, end);
    if (!skipping_) {
      line_.append(piece.substr(0, longest_ + 1 - line_.size()));
      if (line_.size() > longest_) {
        line_.resize(longest_);
        lines.push_back(line_ + "…");
        line_.clear();
        skipping_ = true;
      }
    }
    if (end == std::string_view::npos) break;
    complete(lines);
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> LineReader::finish() {
  std::vector<std::string> lines;
  if (!line_.empty()) complete(lines);
  skipping_ = false;
  return lines;
}

LongText::LongText(std::string text) : size_(text.size()) {
  if (!text.empty()) blocks_.push_back(std::make_shared<std::string>(std::move(text)));
}

LongText& LongText::operator+=(std::string_view text) {
  while (!text.empty()) {
    // What a copy shows of its last block must not change.
    if (blocks_.empty() || blocks_.back().use_count() > 1 || blocks_.back()->size() == blocks_.back()->capacity())
      blocks_.emplace_back(std::make_shared<std::string>())->reserve(std::clamp(size_, kSmallest, kBlock));
    auto& block = *blocks_.back();
    const auto part = text.substr(0, block.capacity() - block.size());
    block += part;
    size_ += part.size();
    text.remove_prefix(part.size());
  }
  return *this;
}

LongText& LongText::operator+=(const LongText& text) {
  blocks_.insert(blocks_.end(), text.blocks_.begin(), text.blocks_.end());
  size_ += text.size_;
  return *this;
}

std::string LongText::str() const {
  std::string whole;
  whole.reserve(size_);
  for (const auto& block : blocks_) whole += *block;
  return whole;
}

}  // namespace tranche
