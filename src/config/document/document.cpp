#include "config/document/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace tranche::config {
namespace {

constexpr int kDeepest = 200;                           // a configuration has a depth of six
constexpr std::size_t kLargest = std::size_t{1} << 20;  // the most that a ConfigMap can hold
constexpr std::size_t kMostValues = 50'000;             // a thousand entries with the 16 devices of each
constexpr std::size_t kLongText = 64;                   // bytes of a text that count as one more value

// Characters that come with text from a web page or a chat, and that no editor shows.
constexpr std::pair<std::string_view, std::string_view> kInvisible[] = {
    {"\xc2\xa0", "U+00A0, a no-break space"},        {"\xc2\xad", "U+00AD, a soft hyphen"},
    {"\xe2\x80\x8b", "U+200B, a zero-width space"},  {"\xe2\x80\x8c", "U+200C, a zero-width non-joiner"},
    {"\xe2\x80\x8d", "U+200D, a zero-width joiner"}, {"\xe2\x81\xa0", "U+2060, a word joiner"},
    {"\xef\xbb\xbf", "U+FEFF, a byte order mark"},
};
constexpr std::string_view kTemplate = "this is a template: have it filled in first";
constexpr std::string_view kTypeAgain = "delete this character, and type a blank where one belongs";

// The name of the first one in `text`, "" = none.
std::string_view invisible_in(std::string_view text) {
  const auto* const found =
      std::ranges::find_if(kInvisible, [text](const auto& each) { return text.find(each.first) != text.npos; });
  return found == std::end(kInvisible) ? std::string_view() : found->second;
}

// Converts yaml-cpp's events to Nodes. The first error is kept; later events are processed without effect. In a
// configuration, values are counted, and invisible characters in plain scalars are errors.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view source, std::string_view text, bool is_configuration)
      : source_(source), text_(text), is_configuration_(is_configuration) {}

  void OnDocumentStart(const YAML::Mark& mark) override { began = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    // For a key without a colon, yaml-cpp makes up a value at the place of the key.
    if (!stack_.empty()) {
      const auto& key = stack_.back().pending;
      if (key && mark.line + 1 == key->line && mark.column + 1 == key->column)
        fault(key->line, key->column, "has no colon and no value: " + in_quotes(key->key),
              "write the key with its value, key: value, or remove it");
    }
    leaf(mark, anchor, Node::Kind::kNull, {}, true);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool typed = tag.empty() || tag == "?" || tag == "tag:yaml.org,2002:bool" || tag == "tag:yaml.org,2002:int" ||
                       tag == "tag:yaml.org,2002:float" || tag == "tag:yaml.org,2002:null";
    if (const auto name = invisible_in(value); is_configuration_ && !name.empty() && tag != "!")
      fault(mark.line + 1, mark.column + 1, "has an invisible character, " + std::string(name),
            std::string(kTypeAgain));
    leaf(mark, anchor, Node::Kind::kScalar, value, !typed);
    last_quoted = tag == "!" ? std::optional(mark) : std::nullopt;
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      return fault(mark.line + 1, mark.column + 1, "an alias refers to a value that contains it",
                   "write the value out instead of *alias");
    count(mark, found->second->values);
    found->second->aliased = true;
    add(found->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, Node::Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, Node::Kind::kMapping);
  }
  void OnMapEnd() override { close(); }

  NodePtr root;
  std::optional<Problem> problem;
  YAML::Mark began;                       // start of the document
  std::optional<YAML::Mark> last_quoted;  // the last scalar, if it is quoted

 private:
  struct Frame {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    std::optional<Member> pending;  // a mapping's key without its value yet
    std::vector<NodePtr> merges;    // values of "<<"
  };

  void fault(int line, int column, std::string what, std::string remedy) {
    if (!problem) problem = Problem{Severity::kError, {source_, line, column}, {}, std::move(what), std::move(remedy)};
  }

  void count(const YAML::Mark& mark, std::size_t values) {
    values_ += values;
    if (values_ <= kMostValues || !is_configuration_ || problem) return;
    fault(
        mark.line + 1, mark.column + 1,
        "comes after " + std::to_string(kMostValues) +
            " keys and values, and no more are read (an alias counts all of its values, a text one for each 64 bytes)",
        "a configuration needs a few hundred; is this the right file?");
  }

  std::shared_ptr<Node> make(const YAML::Mark& mark, Node::Kind kind) {
    count(mark, 1);
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return node;
  }

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor, Node::Kind kind, const std::string& text, bool quoted) {
    auto node = make(mark, kind);
    count(mark, text.size() / kLongText);
    node->values += text.size() / kLongText;
    node->text = text;
    node->quoted = quoted;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    add(std::move(node));
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Node::Kind kind) {
    stack_.push_back({make(mark, kind), anchor, {}, {}});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    merge(frame);
    if (frame.anchor != YAML::NullAnchor) anchors_[frame.anchor] = frame.node;
    add(std::move(frame.node));
  }

  void add(NodePtr node) {
    if (problem) return;
    if (stack_.empty()) {
      root = std::move(node);
      return;
    }
    Frame& top = stack_.back();
    if (node->height >= kDeepest)
      return fault(node->line, node->column, "is nested too deeply", "a configuration needs no more than six levels");
    top.node->height = std::max(top.node->height, node->height + 1);
    top.node->values += node->values;
    if (top.node->kind == Node::Kind::kSequence) {
      top.node->items.push_back(std::move(node));
    } else if (!top.pending) {
      if (node->kind != Node::Kind::kScalar && node->kind != Node::Kind::kNull)
        fault(node->line, node->column, "a key must be a word, not " + describe(*node),
              text_.contains("{{") ? std::string(kTemplate) : "write key: value");
      top.pending = Member{node->kind == Node::Kind::kNull ? "null" : node->text, node->line, node->column, nullptr};
    } else {
      Member member = *std::move(top.pending);
      top.pending.reset();
      take_value(top, std::move(member), std::move(node));
    }
  }

  void take_value(Frame& top, Member member, NodePtr node) {
    member.value = std::move(node);
    if (member.key != "<<") {
      top.node->members.push_back(std::move(member));
    } else if (member.value->kind == Node::Kind::kSequence) {
      for (const auto& item : member.value->items) top.merges.push_back(item);
    } else {
      top.merges.push_back(member.value);
    }
  }

  // YAML 1.1's merge key: adds members of the named mappings that are missing; earlier mappings win.
  void merge(Frame& frame) {
    if (frame.merges.empty()) return;
    std::set<std::string, std::less<>> present;
    for (const Member& member : frame.node->members) present.insert(member.key);
    for (const NodePtr& from : frame.merges) {
      if (from->kind != Node::Kind::kMapping)
        return fault(from->line, from->column, "<< must name a mapping, not " + describe(*from),
                     "write <<: *name-of-a-mapping");
      for (const Member& member : from->members)
        if (present.insert(member.key).second) frame.node->members.push_back(member);
    }
  }

  std::string source_;
  std::string_view text_;
  bool is_configuration_;
  std::size_t values_ = 0;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, std::shared_ptr<Node>> anchors_;
};

// yaml-cpp reports what its grammar lacks; this reports the author's most likely mistake.
std::string remedy_for_syntax(std::string_view text, int line, std::string_view said) {
  const auto lines = lines_of(text);
  for (int i = line; i >= 0 && i > line - 2; --i) {
    if (i >= static_cast<int>(lines.size())) continue;
    const std::string_view blank = lines[i].substr(0, lines[i].find_first_not_of(" \t"));
    if (blank.find('\t') != std::string_view::npos) return "indent with spaces: YAML does not allow tabs there";
    if (lines[i].contains("{{")) return std::string(kTemplate);
    if (const auto name = invisible_in(lines[i]); !name.empty())
      return "line " + std::to_string(i + 1) + " has an invisible character, " + std::string(name) + ": " +
             std::string(kTypeAgain);
  }
  static constexpr std::pair<std::string_view, std::string_view> kRemedies[] = {
      {"flow not found", "close the bracket or brace that was opened before, or put a comma between two entries"},
      {"end of map not found", "indent this line as far as the keys that it belongs to"},
      {"end of sequence not found", "indent this line as far as the list that it belongs to"},
      {"illegal map value",
       "put quotes around a text that has a colon in it, a blank after the colon of a key, and "
       "keys of one level at the same indentation"},
      {"illegal block entry", "put list entries on lines of their own, below the key of the list"},
      {"unknown token", "put quotes around a text that begins with @, ` or %"},
      {"anchor is not defined", "write &name before an earlier value, or write the value out"},
  };
  for (const auto& [part, remedy] : kRemedies)
    if (said.find(part) != std::string_view::npos) return std::string(remedy);
  return "check indentation, quotes and brackets at and before this place";
}

// The position in `text`, npos if there is none. Counted from 0; columns are bytes.
std::size_t offset_of(std::string_view text, int line, int column) {
  std::size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  for (; line > 0 && at != std::string_view::npos; --line) {
    at = text.find('\n', at);
    if (at != std::string_view::npos) ++at;
  }
  return at == std::string_view::npos ? at : std::min(at + static_cast<std::size_t>(column), text.size());
}

// Whether the quote at the front of `text` is closed: yaml-cpp accepts the end of the file instead.
bool is_closed(std::string_view text) {
  const char quote = text.front();
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool doubled = quote == '\'' && text.substr(i).starts_with("''");
    if (doubled || (quote == '"' && text[i] == '\\'))
      ++i;
    else if (text[i] == quote)
      return true;
  }
  return false;
}

Document refused(std::string_view source, int line, int column, std::string what, std::string remedy) {
  return {nullptr,
          Problem{Severity::kError, {std::string(source), line, column}, {}, std::move(what), std::move(remedy)},
          nullptr};
}

// Errors of the text as a whole, found before it is parsed as YAML: its size, and bytes that YAML does not allow, but
// yaml-cpp accepts.
std::optional<Document> refused_as_text(std::string_view text, std::string_view source, std::size_t largest,
                                        std::string_view remedy) {
  if (text.size() > largest)
    return refused(source, 0, 0, "is larger than " + std::to_string(largest >> 20) + " MiB", std::string(remedy));
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return std::nullopt;  // UTF-16, which YAML allows
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = character_at(text.substr(at));
    if (length == 0 || (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
      const std::string_view before = text.substr(0, at);
      const auto line = static_cast<int>(std::ranges::count(before, '\n')) + 1;
      const auto column = static_cast<int>(before.size() - (before.rfind('\n') + 1)) + 1;  // npos + 1 is 0
      return length == 0
                 ? refused(source, line, column, "is not UTF-8 here", "save the file as UTF-8; is this a text file?")
                 : refused(source, line, column, "has a control character here, " + in_quotes(text.substr(at, 1)),
                           "remove it; inside double quotes write it with a backslash");
    }
    at += length;
  }
  return std::nullopt;
}

// The parser's next document; absent at the end of the text. `began`: position of the previous document, then of this
// one; below 0 before the first.
std::optional<Document> next_document(YAML::Parser& parser, std::string_view text, std::string_view source, int& began,
                                      bool is_configuration) {
  try {
    Builder builder(source, text, is_configuration);
    if (!parser.HandleNextDocument(builder)) return std::nullopt;
    // yaml-cpp does not get past a character that nothing can begin with (",0"): it returns empty documents there
    // endlessly.
    const bool stands_still = builder.began.pos <= began;
    began = builder.began.pos;
    if (stands_still)
      return refused(source, builder.began.line + 1, builder.began.column + 1, "nothing can begin with this",
                     "check brackets and commas here");
    if (builder.problem) return Document{nullptr, std::move(builder.problem), nullptr};
    if (const auto& mark = builder.last_quoted) {
      const std::size_t at = offset_of(text, mark->line, mark->column);
      const std::string_view rest = at == std::string_view::npos ? std::string_view() : text.substr(at);
      const bool quoted = rest.starts_with('"') || rest.starts_with('\'');
      if (quoted && !is_closed(rest))
        return refused(source, mark->line + 1, mark->column + 1, "the quote that begins here is not closed",
                       "put the same quote at the end of the text");
    }
    return Document{std::move(builder.root), std::nullopt, nullptr};
  } catch (const YAML::Exception& e) {
    const bool known = !e.mark.is_null();
    return refused(source, known ? e.mark.line + 1 : 0, known ? e.mark.column + 1 : 0, "is not valid YAML: " + e.msg,
                   remedy_for_syntax(text, e.mark.line, e.msg));
  } catch (const std::exception& e) {
    return refused(source, 0, 0, std::string("cannot be read as YAML: ") + e.what(),
                   "check indentation, quotes and brackets");
  }
}

}  // namespace

Document read_document(std::string_view text, std::string_view source) {
  if (auto bad = refused_as_text(text, source, kLargest,
                                 "a configuration file has a few hundred lines; is this the right file?"))
    return *std::move(bad);
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  int began = -1;
  auto document = next_document(parser, text, source, began, true).value_or(Document{});
  if (document.problem) return document;
  if (auto second = next_document(parser, text, source, began, true); second && second->root != nullptr)
    if (second->root->kind != Node::Kind::kNull) document.ignored = std::move(second->root);
  return document;
}

std::vector<Document> read_documents(std::string_view text, std::string_view source, std::size_t largest) {
  std::vector<Document> documents;
  if (auto bad = refused_as_text(text, source, largest, "give a part of it, or several files one by one")) {
    documents.push_back(*std::move(bad));
    return documents;
  }
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  int began = -1;
  while (auto document = next_document(parser, text, source, began, false)) {
    const bool last = document->problem.has_value();
    if (last || (document->root && document->root->kind != Node::Kind::kNull))
      documents.push_back(*std::move(document));
    if (last) break;
  }
  return documents;
}

Scalar scalar_of(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return Null{};
  if (node.quoted) return node.text;
  return resolve_plain(node.text);
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMapping:
      return "a mapping";
    default:
      return describe(scalar_of(node));
  }
}

}  // namespace tranche::config
