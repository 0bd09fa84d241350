#include "yaml_tree.h"

#include "base/text.h"

namespace tranche::sim {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kMostDepth = 32;

// Recursive descent over the characters. Any error ends it: sets `failed_`, and everything unwinds.
class Parser {
 public:
  Parser(std::string_view text, std::string source, std::vector<Problem>& problems)
      : text_(text), source_(std::move(source)), problems_(problems) {}

  std::optional<YamlItem> document() {
    next_token();
    if (rest().starts_with("---") && at_blank(3)) {
      pos_ += 3;
      next_token();
    }
    YamlItem item = block(0, "", 0);
    next_token();
    if (!failed_ && !at_end()) fail("does not belong to what stands before it", "check the indentation of this line");
    return failed_ ? std::nullopt : std::optional(std::move(item));
  }

 private:
  // --- characters and places
  bool at_end() const { return pos_ >= text_.size(); }
  char look(std::size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  std::string_view rest() const { return text_.substr(pos_); }
  bool at_line_end(std::size_t ahead = 0) const {
    const std::size_t at = pos_ + ahead;
    return at >= text_.size() || text_[at] == '\n' || (text_[at] == '\r' && look(ahead + 1) == '\n');
  }
  bool at_blank(std::size_t ahead = 0) const { return at_line_end(ahead) || look(ahead) == ' '; }
  int column() const { return static_cast<int>(pos_ - line_start_); }
  Place here() const { return {source_, line_, column() + 1}; }

  void advance() {
    if (look() == '\n') {
      ++line_;
      line_start_ = pos_ + 1;
    }
    ++pos_;
  }

  void fail(std::string what, std::string remedy) {
    if (!failed_) problems_.push_back({Severity::kError, here(), "", std::move(what), std::move(remedy)});
    failed_ = true;
  }

  void skip_spaces() {
    while (look() == ' ') ++pos_;
  }

  void skip_comment() {
    if (look() != '#') return;
    while (!at_line_end()) ++pos_;
  }

  // Skips blanks, comments and line ends.
  void next_token() {
    for (;;) {
      skip_spaces();
      skip_comment();
      if (look() == '\t') fail("is indented with a tab", "indent with spaces");
      if (failed_ || at_end() || !at_line_end()) return;
      while (!at_end() && look() != '\n') ++pos_;  // a carriage return
      if (!at_end()) advance();
    }
  }

  // After a value, only a comment may follow on its line.
  void end_line() {
    if (failed_) return;
    const bool spaced = look() == ' ' || at_line_end();
    skip_spaces();
    if (spaced) skip_comment();
    if (!at_line_end()) fail("is more text where the value has ended", "put texts with special characters in quotes");
  }

  // --- block style
  bool at_dash() const { return look() == '-' && at_blank(1); }

  YamlItem block(int least_column, const std::string& path, int depth) {
    next_token();
    YamlItem item = empty_item(path);
    if (failed_ || at_end() || column() < least_column) return item;
    if (depth > kMostDepth) {
      fail("is nested too deeply", "write it flatter");
      return item;
    }
    if (at_dash()) return block_list(path, depth);
    if (at_key()) return block_map(path, depth);
    item = inline_value(path, depth);
    end_line();
    return item;
  }

  YamlItem block_list(const std::string& path, int depth) {
    YamlItem list = empty_item(path);
    list.shape = YamlItem::Shape::kList;
    const int indent = column();
    while (!failed_ && !at_end() && column() == indent && at_dash()) {
      ++pos_;
      const Place place = here();
      const int line = line_;
      YamlItem entry = block(indent + 1, path + "[" + std::to_string(list.entries.size()) + "]", depth + 1);
      if (entry.shape == YamlItem::Shape::kNothing && line_ != line) entry.place = place;
      list.entries.emplace_back(std::string(), std::move(entry));
      next_token();
    }
    check_indent(indent);
    return list;
  }

  YamlItem block_map(const std::string& path, int depth) {
    YamlItem map = empty_item(path);
    map.shape = YamlItem::Shape::kMap;
    const int indent = column();
    while (!failed_ && !at_end() && column() == indent && !at_dash()) {
      if (!at_key()) {
        fail("is not a key with a colon", "write for example: count: 4");
        break;
      }
      add(map, [&](const std::string& child) { return value_after_key(indent, child, depth + 1); });
      next_token();
    }
    check_indent(indent);
    return map;
  }

  void check_indent(int indent) {
    if (!at_end() && column() > indent) fail("is indented further than its neighbours", "align it with the line above");
  }

  YamlItem value_after_key(int indent, const std::string& path, int depth) {
    skip_spaces();
    skip_comment();
    if (!at_line_end()) {
      YamlItem item = inline_value(path, depth);
      end_line();
      return item;
    }
    YamlItem nothing = empty_item(path);
    next_token();
    // A list may be indented as little as its key.
    const bool list_here = !at_end() && column() == indent && at_dash();
    if (at_end() || (column() <= indent && !list_here)) return nothing;
    return block(list_here ? indent : indent + 1, path, depth);
  }

  // Reads "key:" and has `value` read the rest.
  template <class ReadValue>
  void add(YamlItem& map, const ReadValue& value) {
    const Place place = here();
    const std::string key = scalar(true);
    skip_spaces();
    if (failed_) return;
    ++pos_;  // the colon, which at_key() has checked
    if (map.find(key) != nullptr) {
      problems_.push_back(
          {Severity::kError, place, map.path, in_quotes(key) + " is written twice", "keep one of them"});
    }
    YamlItem child = value(map.path.empty() ? key : map.path + "." + key);
    if (child.shape == YamlItem::Shape::kNothing) child.place = place;
    map.entries.emplace_back(key, std::move(child));
  }

  // --- flow style and scalars
  YamlItem inline_value(const std::string& path, int depth) {
    YamlItem item = empty_item(path);
    if (depth > kMostDepth) {
      fail("is nested too deeply", "write it flatter");
    } else if (look() == '[') {
      flow_list(item, depth);
    } else if (look() == '{') {
      flow_map(item, depth);
    } else {
      const bool quoted = look() == '"' || look() == '\'';
      item.text = scalar(flow_ > 0);
      const bool nothing = !quoted && (item.text.empty() || item.text == "~" || item.text == "null");
      item.shape = nothing ? YamlItem::Shape::kNothing : YamlItem::Shape::kText;
    }
    return item;
  }

  void flow_list(YamlItem& list, int depth) {
    list.shape = YamlItem::Shape::kList;
    open_flow();
    while (!failed_ && look() != ']') {
      list.entries.emplace_back(std::string(),
                                inline_value(list.path + "[" + std::to_string(list.entries.size()) + "]", depth + 1));
      next_flow_entry(']');
    }
    close_flow();
  }

  void flow_map(YamlItem& map, int depth) {
    map.shape = YamlItem::Shape::kMap;
    open_flow();
    while (!failed_ && look() != '}') {
      if (!at_key()) {
        fail("is not a key with a colon", "write for example: {profile: H200, count: 4}");
        break;
      }
      add(map, [&](const std::string& child) {
        next_token();
        return inline_value(child, depth + 1);
      });
      next_flow_entry('}');
    }
    close_flow();
  }

  void open_flow() {
    ++pos_;
    ++flow_;
    next_token();
  }
  void next_flow_entry(char closing) {
    next_token();
    if (failed_ || look() == closing) return;
    if (look() == ',') {
      ++pos_;
      next_token();
    } else {
      fail(at_end() ? "ends inside brackets" : "is not separated by a comma", std::string("write , or ") + closing);
    }
  }
  void close_flow() {
    if (failed_) return;
    ++pos_;
    --flow_;
  }

  // Whether a key begins here: a scalar, then a colon, then a blank, all on one line.
  bool at_key() {
    if (look() == '[' || look() == '{') return false;
    const std::size_t begin = pos_;
    const bool found = scan_key();
    pos_ = begin;
    return found;
  }
  bool scan_key() {
    if (look() == '"' || look() == '\'') {
      const char quote = look();
      for (++pos_; !at_line_end() && look() != quote; ++pos_) {
        if (look() == '\\' && quote == '"' && !at_line_end(1)) ++pos_;
      }
      if (look() != quote) return false;
      ++pos_;
    } else {
      while (!ends_plain(true)) ++pos_;
    }
    skip_spaces();
    return look() == ':' && at_blank(1);
  }

  bool ends_plain(bool as_key_or_flow) const {
    const char c = look();
    if (at_line_end() || (c == ':' && (at_blank(1) || (flow_ > 0 && is_flow_mark(look(1)))))) return true;
    if (c == ' ' && look(1) == '#') return true;
    return as_key_or_flow && flow_ > 0 && is_flow_mark(c);
  }
  static bool is_flow_mark(char c) { return c == ',' || c == ']' || c == '}' || c == '[' || c == '{'; }

  std::string scalar(bool as_key_or_flow) {
    if (look() == '"') return double_quoted();
    if (look() == '\'') return single_quoted();
    constexpr std::string_view kUnknown = "&*!|>%@`";
    if (kUnknown.find(look()) != std::string_view::npos && !at_end()) {
      fail("begins with a character that has a special meaning in YAML, which is not understood here",
           "put the text in quotes");
      return {};
    }
    const std::size_t begin = pos_;
    while (!at_end() && !ends_plain(as_key_or_flow)) ++pos_;
    return std::string(trimmed(text_.substr(begin, pos_ - begin)));
  }

  std::string single_quoted() {
    std::string value;
    for (++pos_; !at_line_end(); ++pos_) {
      if (look() == '\'' && look(1) != '\'') {
        ++pos_;
        return value;
      }
      if (look() == '\'') ++pos_;  // two of them are an escaped one
      value += look();
    }
    fail("has no closing quote on its line", "write ' at its end");
    return {};
  }

  std::string double_quoted() {
    std::string value;
    for (++pos_; !at_line_end(); ++pos_) {
      if (look() == '"') {
        ++pos_;
        return value;
      }
      if (look() != '\\') {
        value += look();
        continue;
      }
      ++pos_;
      const char c = look();
      if (c == 'n') value += '\n';
      if (c == 't') value += '\t';
      if (c == '"' || c == '\\' || c == '/') value += c;
      if (std::string_view("nt\"\\/").find(c) == std::string_view::npos || at_end()) {
        fail("has an escape that is not understood here", "write \\n, \\t, \\\" or \\\\");
        return {};
      }
    }
    fail("has no closing quote on its line", "write \" at its end");
    return {};
  }

  YamlItem empty_item(const std::string& path) const {
    YamlItem item;
    item.place = here();
    item.path = path;
    return item;
  }

  std::string_view text_;
  std::string source_;
  std::vector<Problem>& problems_;
  std::size_t pos_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
  int flow_ = 0;  // how many brackets are open
  bool failed_ = false;
};

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
  if (text.find('\0') != std::string_view::npos) {
    problems.push_back({Severity::kError, {source, 0, 0}, "", "holds a zero byte", "write it as plain text"});
    return std::nullopt;
  }
  return Parser(text, source, problems).document();
}

}  // namespace tranche::sim
