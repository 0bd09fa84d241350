#pragma once
// Parses text from outside without trusting it: these functions return "no" instead of guessing, allocate no more than
// their input, and never throw. And makes text of it that every document accepts: valid UTF-8, cut between characters.
// Sizes are in bytes. Pure.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

std::string_view trimmed(std::string_view text);                             // without ASCII white space around
std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty pieces; "" gives one
std::vector<std::string_view> lines_of(std::string_view text);               // without line ends; no empty last line
std::vector<std::string_view> words_of(std::string_view text);               // split at runs of white space

// The whole text must be the number: no sign for unsigned, no blanks, no overflow.
std::optional<std::uint64_t> parse_unsigned(std::string_view text, int base = 10);
std::optional<std::int64_t> parse_signed(std::string_view text);

std::string in_quotes(std::string_view text);  // for messages: in double quotes, control characters escaped, cut at 80
std::string in_markup(std::string_view text);  // for HTML and XML: & < > " ' as entities; control characters stay
std::string join(const std::vector<std::string>& parts, std::string_view separator);
// The same of the texts that `text`, a function or a member, has of each.
template <class Range, class Text>
std::string join(const Range& range, std::string_view separator, Text text) {
  std::vector<std::string> parts;
  for (const auto& each : range) parts.emplace_back(std::invoke(text, each));
  return join(parts, separator);
}
std::string text_of_all(std::span<const std::string_view> words, std::string_view last = " or ");  // "a, b or c"
std::string count_text(std::uint64_t n, std::string_view one);  // "1 slot", "2 slots", "2 processes"
std::string lasted(std::uint64_t ms);                           // for people: "2d 3h", "3h 10m", "7m", "40s"

// ASCII letters and digits, independent of the locale.
constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_alnum(char c) {
  return (to_lower(c) >= 'a' && to_lower(c) <= 'z') || is_digit(c);
}
bool same_in_any_case(std::string_view a, std::string_view b);

// A stable 64-bit hash (FNV-1a) for names that must be equal in every run and version.
std::uint64_t stable_hash(std::string_view text);
std::string hex16(std::uint64_t value);                          // 16 lower-case hexadecimal digits
std::string uuid_text(std::span<const std::uint8_t, 16> bytes);  // "8dcd427f-483b-b48f-d7e5-75fb19a52b76"

// The size of the character at the beginning of `text`; 0 if it is empty or not valid (RFC 3629: no overlong form, no
// surrogate, nothing above U+10FFFF).
std::size_t character_at(std::string_view text);
bool is_control(std::string_view character);  // U+0000 to U+001F and U+007F to U+009F

std::string_view first_bytes(std::string_view text, std::size_t most_bytes);  // does not end inside a character
std::string cut_text(std::string_view text, std::size_t most_bytes);  // first_bytes, with "…" at the end when cut

// On one line and harmless to a terminal: control characters and bytes that are not UTF-8 become \n, \x1b, \xff. A
// character in `marked` gets a backslash before it.
std::string visible_text(std::string_view text, std::string_view marked = {});

// Splits bytes into whole lines of bounded length.
class LineReader {
 public:
  explicit LineReader(std::size_t longest) : longest_(longest) {}

  // The lines that `bytes` complete, without their "\n" or "\r\n". The beginning of a too long line is returned as soon
  // as the limit is reached, with "…" at its end; the rest of the line is dropped.
  std::vector<std::string> take(std::string_view bytes);
  std::vector<std::string> finish();  // the last line, if it had no end

 private:
  void complete(std::vector<std::string>& lines);

  std::size_t longest_;
  std::string line_;
  bool skipping_ = false;  // inside the rest of a too long line
};

// A text of up to megabytes in blocks that its copies share: a page that is kept and sent to several readers is in
// memory once. It only grows, and it is made without copies of what it already has. Copies may be on several threads;
// one object is of one thread.
class LongText {
 public:
  // The size of the blocks of a long text: each is memory of its own, which the system has back with the last copy
  // (os/memory/memory.h, kOwnBlock).
  static constexpr std::size_t kBlock = std::size_t{128} << 10;

  // NOLINTBEGIN(google-explicit-constructor): a text of any length is one
  LongText() = default;
  LongText(std::string text);
  LongText(const char* text) : LongText(std::string(text)) {}
  // NOLINTEND(google-explicit-constructor)

  LongText& operator+=(std::string_view text);
  LongText& operator+=(const std::string& text) { return *this += std::string_view(text); }
  LongText& operator+=(const char* text) { return *this += std::string_view(text); }
  LongText& operator+=(const LongText& text);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<std::shared_ptr<std::string>>& blocks() const { return blocks_; }  // none is empty
  std::string str() const;

 private:
  std::vector<std::shared_ptr<std::string>> blocks_;  // one that a copy has too does not grow
  std::size_t size_ = 0;
};

}  // namespace tranche
