#include "config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <unordered_map>

#include "base/text.h"

namespace tranche::config {
namespace {

constexpr int kDeepest = 200;                           // a configuration has a depth of six
constexpr std::size_t kLargest = std::size_t{1} << 20;  // what a ConfigMap can hold

// Turns yaml-cpp's events into Nodes. The first fault is kept; later events are still taken in, to no harm.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view source) : source_(source) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    leaf(mark, anchor, Node::Kind::kNull, {}, true);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool typed = tag.empty() || tag == "?" || tag == "tag:yaml.org,2002:bool" || tag == "tag:yaml.org,2002:int" ||
                       tag == "tag:yaml.org,2002:float" || tag == "tag:yaml.org,2002:null";
    leaf(mark, anchor, Node::Kind::kScalar, value, !typed);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (const auto found = anchors_.find(anchor); found != anchors_.end()) {
      add(found->second);
    } else {
      fault(mark, "an alias refers to a value that contains it", "write the value out instead of *alias");
      leaf(mark, YAML::NullAnchor, Node::Kind::kNull, {}, true);
    }
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

 private:
  struct Frame {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    std::optional<Member> pending;  // a mapping's key that waits for its value
    std::vector<NodePtr> merges;    // values of "<<"
  };

  void fault(const YAML::Mark& mark, std::string what, std::string remedy) {
    if (problem) return;
    problem =
        Problem{Severity::kError, {source_, mark.line + 1, mark.column + 1}, {}, std::move(what), std::move(remedy)};
  }

  std::shared_ptr<Node> make(const YAML::Mark& mark, Node::Kind kind) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return node;
  }

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor, Node::Kind kind, const std::string& text, bool quoted) {
    auto node = make(mark, kind);
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
    if (stack_.empty()) {
      root = std::move(node);
      return;
    }
    Frame& top = stack_.back();
    const YAML::Mark where = mark_of(*node);
    if (node->height >= kDeepest) {
      fault(where, "is nested too deeply", "a configuration needs no more than six levels");
      node = make(where, Node::Kind::kNull);
    }
    top.node->height = std::max(top.node->height, node->height + 1);
    if (top.node->kind == Node::Kind::kSequence) {
      top.node->items.push_back(std::move(node));
    } else if (!top.pending) {
      if (node->kind != Node::Kind::kScalar && node->kind != Node::Kind::kNull)
        fault(where, "a key must be a word, not " + describe(*node), "write key: value");
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

  // YAML 1.1's merge key: members of the named mappings that are not there yet; earlier mappings win.
  void merge(Frame& frame) {
    if (frame.merges.empty()) return;
    std::set<std::string, std::less<>> present;
    for (const Member& member : frame.node->members) present.insert(member.key);
    for (const NodePtr& from : frame.merges) {
      if (from->kind != Node::Kind::kMapping) {
        fault(mark_of(*from), "<< must name a mapping, not " + describe(*from), "write <<: *name-of-a-mapping");
        continue;
      }
      for (Member member : from->members) {
        member.merged = true;
        if (present.insert(member.key).second) frame.node->members.push_back(std::move(member));
      }
    }
  }

  static YAML::Mark mark_of(const Node& node) {
    YAML::Mark mark;
    mark.line = node.line - 1;
    mark.column = node.column - 1;
    return mark;
  }

  std::string source_;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, NodePtr> anchors_;
};

std::string remedy_for_syntax(std::string_view text, int line) {
  const auto lines = lines_of(text);
  for (int i = line; i >= 0 && i > line - 2; --i) {
    if (i >= static_cast<int>(lines.size())) continue;
    const std::string_view blank = lines[i].substr(0, lines[i].find_first_not_of(" \t"));
    if (blank.find('\t') != std::string_view::npos) return "indent with spaces: YAML does not allow tabs there";
  }
  return "check indentation, quotes and brackets at and before this place";
}

}  // namespace

Document read_document(std::string_view text, std::string_view source) {
  const auto refuse = [&](int line, int column, std::string what, std::string remedy) {
    return Document{
        nullptr,
        Problem{Severity::kError, {std::string(source), line, column}, {}, std::move(what), std::move(remedy)}};
  };
  if (text.size() > kLargest)
    return refuse(0, 0, "is larger than 1 MiB",
                  "a configuration file has a few hundred lines; is this the right file?");
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(source);
    parser.HandleNextDocument(builder);
    if (builder.problem) return {nullptr, std::move(builder.problem)};
    return {std::move(builder.root), std::nullopt};
  } catch (const YAML::Exception& e) {
    const bool known = !e.mark.is_null();
    return refuse(known ? e.mark.line + 1 : 0, known ? e.mark.column + 1 : 0, "is not valid YAML: " + e.msg,
                  remedy_for_syntax(text, e.mark.line));
  } catch (const std::exception& e) {
    return refuse(0, 0, std::string("cannot be read as YAML: ") + e.what(), "check indentation, quotes and brackets");
  }
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
