#include "tool_arguments.h"

#include <algorithm>

#include "base/problem.h"
#include "base/text.h"
#include "yaml_tree.h"

namespace tranche::sim {

ToolArguments::ToolArguments(const std::vector<std::string>& words,
                             const std::vector<std::string_view>& known_options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      plain_.push_back(words[i]);
      continue;
    }
    const std::string name = words[i].substr(2);
    if (std::ranges::find(known_options, name) == known_options.end()) {
      const std::string meant = did_you_mean(name, known_options);
      fail("--" + name + " is not an option" + (meant.empty() ? "" : "; did you mean --" + meant + "?"));
    } else if (i + 1 == words.size()) {
      fail("--" + name + " needs a value");
    } else {
      options_.emplace_back(name, words[++i]);
    }
  }
}

void ToolArguments::fail(std::string fault) {
  if (fault_.empty()) fault_ = std::move(fault);
}

bool ToolArguments::done() {
  if (fault_.empty() && !empty()) fail(in_quotes(plain_[at_]) + " is too much");
  return fault_.empty();
}

std::optional<std::string> ToolArguments::next() {
  if (empty()) return std::nullopt;
  return plain_[at_++];
}

std::string ToolArguments::need(std::string_view what) {
  auto word = next();
  if (!word) fail(std::string(what) + " is missing");
  return word.value_or("");
}

std::uint64_t ToolArguments::need_number(std::string_view what, std::uint64_t most) {
  const std::string word = need(what);
  const auto number = parse_unsigned(word);
  if (!number || *number > most) {
    fail(std::string(what) + " must be a number up to " + std::to_string(most) + ", not " + in_quotes(word));
  }
  return number.value_or(0);
}

std::uint64_t ToolArguments::need_bytes(std::string_view what) {
  const std::string word = need(what);
  const auto bytes = parse_bytes(word);
  if (!bytes) fail(std::string(what) + " must be an amount such as 10GiB or 512MiB, not " + in_quotes(word));
  return bytes.value_or(0);
}

std::string ToolArguments::option(std::string_view name, std::string otherwise) const {
  for (const auto& [key, value] : options_) {
    if (key == name) return value;
  }
  return otherwise;
}

std::uint64_t ToolArguments::option_number(std::string_view name, std::uint64_t most, std::uint64_t otherwise) {
  const std::string word = option(name);
  if (word.empty()) return otherwise;
  const auto number = parse_unsigned(word);
  if (!number || *number > most) {
    fail("--" + std::string(name) + " must be a number up to " + std::to_string(most) + ", not " + in_quotes(word));
  }
  return number.value_or(otherwise);
}

}  // namespace tranche::sim
