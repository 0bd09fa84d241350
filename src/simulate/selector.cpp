#include "simulate/selector.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace tranche::simulate {
namespace {

constexpr std::size_t kLongestExpression = 10 << 10;  // what the API allows
constexpr std::size_t kMostTerms = 64;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  std::optional<std::vector<SelectorTerm>> all() {
    std::vector<SelectorTerm> terms;
    do {
      auto one = term();
      if (!one || terms.size() == kMostTerms) return std::nullopt;
      terms.push_back(*std::move(one));
    } while (take("&&"));
    blanks();
    if (!rest_.empty()) return std::nullopt;
    return terms;
  }

 private:
  void blanks() {
    while (!rest_.empty() && std::string_view(" \t\r\n").contains(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    blanks();
    if (!rest_.starts_with(token)) return false;
    if (is_word(token.back()) && rest_.size() > token.size() && is_word(rest_[token.size()])) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string> word() {
    blanks();
    const auto end = std::ranges::find_if_not(rest_, is_word);
    const auto size = static_cast<std::size_t>(end - rest_.begin());
    if (size == 0) return std::nullopt;
    const std::string found(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return found;
  }
  // Without escapes and without the triple quotes of CEL.
  std::optional<std::string> quoted() {
    blanks();
    if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\'')) return std::nullopt;
    const auto end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string found(rest_.substr(1, end - 1));
    if (found.contains('\\') || found.contains('\n')) return std::nullopt;
    rest_.remove_prefix(end + 1);
    return found;
  }
  std::optional<std::string> value() {
    if (auto text = quoted()) return "\"" + *text + "\"";
    auto bare = word();
    if (!bare || (*bare != "true" && *bare != "false" && !parse_unsigned(*bare))) return std::nullopt;
    return bare;
  }
  bool compare(SelectorTerm& term) {
    if (take("!="))
      term.equal = false;
    else if (!take("=="))
      return false;
    auto wanted = value();
    if (!wanted) return false;
    term.value = *std::move(wanted);
    return true;
  }

  std::optional<SelectorTerm> term() {
    const bool negated = take("!");
    if (!take("device") || !take(".")) return std::nullopt;
    SelectorTerm made;
    made.equal = !negated;
    if (take("allowMultipleAllocations")) {
      made.of = SelectorTerm::Of::kShared;
      made.value = "true";
      blanks();
      const bool alone = rest_.empty() || rest_.starts_with("&&");
      return alone || (!negated && compare(made)) ? std::optional(std::move(made)) : std::nullopt;
    }
    if (negated) return std::nullopt;
    if (take("driver")) return compare(made) ? std::optional(std::move(made)) : std::nullopt;
    if (!take("attributes") || !take("[")) return std::nullopt;
    made.of = SelectorTerm::Of::kAttribute;
    const auto domain = quoted();
    if (!domain || !take("]")) return std::nullopt;
    std::optional<std::string> name;
    if (take(".")) {
      name = word();
    } else if (take("[")) {
      name = quoted();
      if (!take("]")) return std::nullopt;
    }
    if (!name || !compare(made)) return std::nullopt;
    made.attribute = *domain + "/" + *name;
    return made;
  }

  std::string_view rest_;
};

Match match(const SelectorTerm& term, const SelectorView& device) {
  std::string has;
  switch (term.of) {
    case SelectorTerm::Of::kDriver:
      has = "\"" + device.driver + "\"";
      break;
    case SelectorTerm::Of::kShared:
      has = device.shared ? "true" : "false";
      break;
    case SelectorTerm::Of::kAttribute: {
      const auto found = device.attributes.find(term.attribute);
      if (found == device.attributes.end()) return Match::kFails;
      has = found->second;
      break;
    }
  }
  return (has == term.value) == term.equal ? Match::kYes : Match::kNo;
}

}  // namespace

Selector parse_selector(std::string_view expression) {
  Selector selector{std::string(expression), std::nullopt};
  if (expression.size() <= kLongestExpression) selector.terms = Parser(expression).all();
  return selector;
}

// As && in CEL: false whatever else fails.
Match match(const Selector& selector, const SelectorView& device) {
  Match all = Match::kYes;
  if (!selector.terms) return all;
  for (const auto& term : *selector.terms) {
    const Match one = match(term, device);
    if (one == Match::kNo) return one;
    if (one == Match::kFails) all = one;
  }
  return all;
}

}  // namespace tranche::simulate
