#include "config/document/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/ascii.h"
#include "config/keys.h"
#include "config/settings.h"

namespace tranche::config {
namespace {

// 2.0 and 1e3 are whole numbers, as after NVIDIA's conversion to JSON.
std::optional<std::int64_t> whole_number(const Scalar& scalar) {
  if (const auto* integer = std::get_if<std::int64_t>(&scalar)) return *integer;
  const auto* real = std::get_if<double>(&scalar);
  constexpr double kBeyond = 9.2e18;
  if (real == nullptr || !std::isfinite(*real) || std::abs(*real) > kBeyond || std::trunc(*real) != *real)
    return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

std::string path_below(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

// The correct path of a key that was written in the wrong section, or "".
std::string_view home_of(std::string_view key) {
  const auto is_home = [key](std::string_view path) {
    const auto dot = path.rfind('.');
    return dot != std::string_view::npos && same_in_any_case(path.substr(dot + 1), key);
  };
  for (const std::string_view path : {"flags.plugin", "flags.gfd", "sharing.mps", "sharing.timeSlicing"})
    if (is_home(path)) return path;
  for (const Program program : {Program::kDevicePlugin, Program::kFeatureDiscovery})
    for (const Setting& setting : settings_of(program))
      if (is_home(setting.path)) return setting.path;
  return {};
}

}  // namespace

bool same_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return to_lower(x) == to_lower(y); });
}

bool Value::null() const {
  return node_ != nullptr && (node_->kind == Node::Kind::kNull ||
                              (node_->kind == Node::Kind::kScalar && std::holds_alternative<Null>(scalar_of(*node_))));
}

Value Value::value_of(const Member& member) const {
  return {member.value.get(), path_below(path_, member.key),
          Place{place_.source, member.value->line, member.value->column}, *findings_};
}

Value Value::key_of(const Member& member) const {
  return {member.value.get(), path_below(path_, member.key), Place{place_.source, member.line, member.column},
          *findings_};
}

Value Value::absent(std::string_view key) const {
  return {nullptr, path_below(path_, key), place_, *findings_};
}

void Value::error(std::string what, std::string remedy) const {
  findings_->problems.add({Severity::kError, place_, path_, std::move(what), std::move(remedy)});
}

void Value::warn(std::string what, std::string remedy) const {
  findings_->problems.add({Severity::kWarning, place_, path_, std::move(what), std::move(remedy)});
}

void Value::ignored(std::string what, std::string remedy) const {
  const bool refused = findings_->unknown_keys == UnknownKeys::kRefused;
  findings_->problems.add(
      {refused ? Severity::kError : Severity::kWarning, place_, path_, std::move(what), std::move(remedy)});
}

void Value::wrong_type(std::string_view expected, std::string remedy) const {
  error("must be " + std::string(expected) + ", but is " + describe(*node_), std::move(remedy));
}

std::optional<bool> Value::boolean() const {
  const Scalar scalar = scalar_of(*node_);
  if (const auto* value = std::get_if<bool>(&scalar); value != nullptr && node_->kind == Node::Kind::kScalar)
    return *value;
  const bool word_in_quotes =
      node_->quoted && node_->kind == Node::Kind::kScalar && std::holds_alternative<bool>(resolve_plain(node_->text));
  wrong_type("true or false", word_in_quotes ? "write " + node_->text + " without quotes" : "write true or false");
  return std::nullopt;
}

std::optional<std::int64_t> Value::integer() const {
  if (node_->kind == Node::Kind::kScalar) {
    if (const auto value = whole_number(scalar_of(*node_))) return value;
    if (node_->quoted && whole_number(resolve_plain(node_->text))) {
      wrong_type("a whole number", "write " + node_->text + " without quotes");
      return std::nullopt;
    }
  }
  wrong_type("a whole number", "write for example 4");
  return std::nullopt;
}

std::optional<std::string> Value::plain_text() const {
  const Scalar scalar = scalar_of(*node_);
  if (const auto* value = std::get_if<std::string>(&scalar); value != nullptr && node_->kind == Node::Kind::kScalar)
    return *value;
  return std::nullopt;
}

std::optional<std::string> Value::text() const {
  if (auto value = plain_text()) return value;
  const bool scalar_of_other_type = node_->kind == Node::Kind::kScalar;
  wrong_type("text", scalar_of_other_type ? "put quotes around it: \"" + node_->text + "\"" : "write one word or path");
  return std::nullopt;
}

std::vector<Value> Value::items() const {
  std::vector<Value> values;
  values.reserve(node_->items.size());
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    const Node& item = *node_->items[i];
    values.emplace_back(&item, path_ + "[" + std::to_string(i) + "]", Place{place_.source, item.line, item.column},
                        *findings_);
  }
  return values;
}

std::vector<Value> Value::entries() const {
  constexpr std::size_t kMost = 1000;
  auto values = items();
  const std::size_t before = std::exchange(findings_->entries, findings_->entries + values.size());
  if (findings_->entries <= kMost) return values;
  const std::size_t left = kMost - std::min(kMost, before);
  if (before <= kMost)
    values[left].error("is entry 1,001, and a configuration can have 1,000 in its lists of resources",
                       "merge entries: one entry shares all devices of its name");
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(left), values.end());
  return values;
}

void Value::read(bool& into) const {
  if (!given()) return;
  note_given();
  if (const auto value = boolean()) into = *value;
}

void Value::read(std::string& into) const {
  if (!given()) return;
  note_given();
  if (auto value = text()) into = *std::move(value);
}

Fields::Fields(const Value& mapping)
    : mapping_(mapping), known_(names_below(mapping.path())), key_case_(key_case_below(mapping.path())) {
  configures_something_ = std::ranges::any_of(mapping.node().members, [this](const Member& member) {
    const auto match = known_key(member.key);
    return match != known_.end() && *match != "version";
  });
  for (const Member& member : mapping.node().members) {
    if (mapping.findings().problems.over()) break;
    const auto match = known_key(member.key);
    if (match == known_.end()) {
      report_unknown(member);
      continue;
    }
    const Member*& slot = found_[*match];
    if (slot != nullptr) {
      const Value earlier = (*this)[*match];
      earlier.ignored("has no effect, because it is written again in line " + std::to_string(member.line),
                      "remove one of the two");
    }
    slot = &member;
  }
}

Value Fields::operator[](std::string_view key) const {
  const auto found = found_.find(key);
  if (found == found_.end()) return mapping_.absent(key);
  const Member& member = *found->second;
  const bool on_key = member.value->kind == Node::Kind::kNull;  // an empty value's own place is that of the next token
  const Place place{mapping_.place().source, on_key ? member.line : member.value->line,
                    on_key ? member.column : member.value->column};
  return {member.value.get(), path_below(mapping_.path(), key), place, mapping_.findings()};
}

std::vector<std::string_view>::const_iterator Fields::known_key(std::string_view key) const {
  return std::ranges::find_if(known_, [&](std::string_view word) {
    return key_case_ == KeyCase::kAny ? same_in_any_case(word, key) : word == key;
  });
}

void Fields::report_unknown_at_the_top(const Value& value, const std::string& key) const {
  const std::string meant = did_you_mean(key, known_);
  if (!meant.empty()) return value.error("is not a known key", "did you mean " + meant + "?");
  const auto home = home_of(key);
  value.error("is not a known key, and nothing else in this file configures anything",
              home.empty() ? "write sharing: or flags: and what belongs below it; is this the right file?"
                           : "it belongs to another section: write it as " + std::string(home));
}

void Fields::report_unknown(const Member& member) const {
  const Value value = mapping_.key_of(member);
  const bool at_the_top = mapping_.path().empty();
  const bool changes_all = at_the_top && (!configures_something_ || !did_you_mean(member.key, known_).empty());
  const bool refused = changes_all || mapping_.findings().unknown_keys == UnknownKeys::kRefused;
  if (mapping_.findings().problems.full(refused ? Severity::kError : Severity::kWarning))
    return refused ? value.error({}, {}) : value.ignored({}, {});  // only counted
  if (changes_all) return report_unknown_at_the_top(value, member.key);
  const std::string ending = refused ? "" : " and is ignored";
  const auto in_other_case =
      std::ranges::find_if(known_, [&](std::string_view word) { return same_in_any_case(word, member.key); });
  if (in_other_case != known_.end()) {
    value.ignored("is not a known key (upper and lower case matter here)" + ending,
                  "write " + std::string(*in_other_case));
    return;
  }
  if (const auto home = home_of(member.key); !home.empty()) {
    value.ignored("is not a known key here" + ending,
                  "it belongs to another section: write it as " + std::string(home));
    return;
  }
  const std::string meant = did_you_mean(member.key, known_);
  value.ignored("is not a known key" + ending, meant.empty() ? "remove it" : "did you mean " + meant + "?");
}

}  // namespace tranche::config
