#include "config/choose.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::config {
namespace {

constexpr const char* kDefaultName = "default";

std::string names_of(const NamedConfigs& set) {
  constexpr std::size_t kMostNames = 20;  // a ConfigMap may have a hundred thousand keys
  std::vector<std::string> names;
  for (const auto& [name, text] : set.texts | std::views::take(kMostNames)) names.push_back(name);
  if (names.empty()) return "it has none";
  if (names.size() == set.texts.size()) return "it has " + join(names, ", ");
  return fmt::format("it has {} and {} more", join(names, ", "), set.texts.size() - names.size());
}

std::string nearest(const NamedConfigs& set, const std::string& name) {
  const auto names = set.texts | std::views::keys;
  const auto meant = did_you_mean(name, {names.begin(), names.end()});
  return meant.empty() ? (set.texts.empty() ? std::string("a key of it") : set.texts.begin()->first) : meant;
}

std::string unknown_name(const NamedConfigs& set, const std::string& name) {
  return fmt::format("names {}, which {} does not have: {}", in_quotes(name), set.where, names_of(set));
}

Problem unknown_label(const NamedConfigs& set, const LabelSeen& label) {
  return error_in("label " + label.key + (label.node.empty() ? "" : " of node " + label.node),
                  unknown_name(set, label.value),
                  fmt::format("write for example: kubectl label node {} {}={} --overwrite",
                              label.node.empty() ? "NODE" : label.node, label.key, nearest(set, label.value)));
}

Problem nothing_left(const NamedConfigs& set, const LabelSeen& label, const ChoiceRules& rules) {
  const std::string tried = rules.fallbacks.empty() ? "there is no fallback strategy"
                                                    : "the fallback " + join(rules.fallbacks, ", ") + " finds none";
  return error_in(set.where,
                  fmt::format("nothing says which configuration this node takes: no label {}, no default, and {}; {}",
                              label.key, tried, names_of(set)),
                  "label the node, name one with --default-config, or call one \"default\"");
}

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::array<std::pair<const char*, std::string ChosenConfig::*>, 5> kFields{
    {{"name", &ChosenConfig::name},
     {"chosenBy", &ChosenConfig::chosen_by},
     {"label", &ChosenConfig::label},
     {"source", &ChosenConfig::path},
     {"text", &ChosenConfig::text}}};

}  // namespace

std::expected<Choice, Problem> choose(const NamedConfigs& set, const LabelSeen& label, const ChoiceRules& rules) {
  if (!label.value.empty()) {
    if (set.texts.contains(label.value)) return Choice{label.value, ChosenBy::kLabel};
    return std::unexpected(unknown_label(set, label));
  }
  if (!rules.default_name.empty()) {
    if (set.texts.contains(rules.default_name)) return Choice{rules.default_name, ChosenBy::kDefault};
    return std::unexpected(error_in("--default-config", unknown_name(set, rules.default_name),
                                    "write for example: " + nearest(set, rules.default_name)));
  }
  for (const auto& word : rules.fallbacks) {
    const auto by = enum_of<ChosenBy>(word);
    if (by == ChosenBy::kEmpty) return Choice{"", ChosenBy::kEmpty};
    if (by != ChosenBy::kNamed && by != ChosenBy::kSingle)
      return std::unexpected(error_in("--fallback-strategies", in_quotes(word) + " is not a strategy",
                                      "write some of: named, single, empty"));
    if (by == ChosenBy::kNamed && set.texts.contains(kDefaultName)) return Choice{kDefaultName, ChosenBy::kNamed};
    if (by == ChosenBy::kSingle && set.texts.size() == 1) return Choice{set.texts.begin()->first, ChosenBy::kSingle};
  }
  return std::unexpected(nothing_left(set, label, rules));
}

Decision decide(const NamedConfigs& set, const LabelSeen& label, const ChoiceRules& rules,
                const std::optional<std::string>& last_label, bool something_in_force) {
  Decision decision;
  if (set.why) {
    decision.problems.push_back(
        error_in(set.where, "cannot be used: " + *set.why, "make it there and readable; it is taken up by itself"));
    return decision;
  }
  LabelSeen seen = label;
  if (label.why) {
    seen.value = last_label.value_or("");
    const std::string meanwhile = !last_label ? "as if there were none"
                                  : last_label->empty()
                                      ? "there was none when it was known last"
                                      : "it was " + in_quotes(*last_label) + " when it was known last";
    decision.problems.push_back(warning_in("label " + label.key,
                                           fmt::format("is not known ({}); until it is: {}", *label.why, meanwhile),
                                           "give this node's name and the right to read it (deploy/rbac/config.yaml)"));
  }
  auto chosen = choose(set, seen, rules);
  if (!chosen && !seen.value.empty() && !something_in_force) {
    decision.problems.push_back(std::move(chosen).error());
    seen.value.clear();
    chosen = choose(set, seen, rules);
  }
  if (chosen)
    decision.choice = *std::move(chosen);
  else
    decision.problems.push_back(std::move(chosen).error());
  return decision;
}

std::string render_chosen(const ChosenConfig& chosen) {
  Json document{{"format", kFormat}};
  for (const auto& [key, field] : kFields) document[key] = chosen.*field;
  // Bytes that are not UTF-8 come from a file that is refused because of them; they must not end the program here.
  return json_text(document, 2) + "\n";
}

Result<ChosenConfig> parse_chosen(std::string_view text) {
  const auto document = json_of(text);
  if (!document.is_object()) return fail(Kind::kInvalid, "is not a JSON document of the configuration in effect");
  const auto format = document.find("format");
  if (format == document.end() || !format->is_number_integer() || *format != kFormat)
    return fail(Kind::kInvalid, "is of another format than this version's");
  ChosenConfig chosen;
  for (const auto& [key, field] : kFields) {
    const auto value = document.find(key);
    if (value == document.end() || !value->is_string()) return fail(Kind::kInvalid, std::string("has no text ") + key);
    chosen.*field = value->get<std::string>();
  }
  return chosen;
}

std::string content_hash(std::string_view text) {
  return hex16(stable_hash(text));
}

}  // namespace tranche::config
