#include "config/document/fields.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "config/keys.h"

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

// Keys of other files and formats, with what to write here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"mig",
     "MIG devices are entries of timeSlicing or mps: write {name: nvidia.com/mig-1g.10gb, replicas: 2} in its "
     "resources"},
    {"mig-configs", "it is a configuration of the MIG manager and of tranche mig: save it as a file of its own"}};

// What pods and nodes have for other ways to share a GPU, with what to write for this one (docs/guide/migrate.md).
struct OtherScheme {
  std::string_view key, what, remedy;
};
constexpr OtherScheme kOtherSchemes[] = {
    {"nvidia.com/gpumem", "is HAMi's request for MiB of GPU memory",
     "set slotMemory (for example 1Gi) below sharing.mps.resources, and request that many of nvidia.com/gpu"},
    {"nvidia.com/gpumem-percentage", "is HAMi's request for a part of a GPU's memory",
     "write replicas: 100 below sharing.mps.resources, and request that many of nvidia.com/gpu"},
    {"nvidia.com/gpucores", "is HAMi's request for a part of a GPU's SMs",
     "write replicas: 100 below sharing.mps.resources, and request that many of nvidia.com/gpu: a slot limits memory "
     "and SMs alike"},
    {"nvidia.com/use-gputype", "is HAMi's choice of a GPU's model",
     "write a nodeSelector or node affinity for the label nvidia.com/gpu.product"},
    {"nvidia.com/nouse-gputype", "is HAMi's choice of a GPU's model",
     "write node affinity (NotIn) for the label nvidia.com/gpu.product"},
    {"cloud.google.com/gke-gpu-sharing-strategy", "is GKE's choice of a way to share",
     "write the label nvidia.com/gpu.sharing-strategy (mps or time-slicing); the node's configuration decides which it "
     "has"},
    {"cloud.google.com/gke-max-shared-clients-per-gpu", "is GKE's number of shares of a GPU",
     "write replicas below sharing.mps.resources or sharing.timeSlicing.resources, and in the pod the label "
     "nvidia.com/gpu.replicas"},
    {"cloud.google.com/gke-gpu-partition-size", "is GKE's choice of a MIG profile",
     "set the node's label nvidia.com/mig.config, and request nvidia.com/mig-1g.10gb or the like"}};

std::size_t common_start(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// The row of a key that was written in the wrong section; nullptr = none. Of several the nearest, then the one of the
// section by which the file shares, then the outermost.
const Key* home_of(const Value& mapping, std::string_view key) {
  const Key* home = nullptr;
  const auto rank = [&mapping](const Key& row) {
    const std::string& shares_by = mapping.findings().shares_by;
    return std::tuple(common_start(row.path, mapping.path()), !shares_by.empty() && row.path.starts_with(shares_by),
                      -std::ranges::count(row.path, '.'));
  };
  for (const Key& row : keys()) {
    const bool here = row.origin == Origin::kNvidia || row.origin == Origin::kOurs;
    if (!here || !row.path.contains('.') || !same_in_any_case(row.name(), key)) continue;
    if (home == nullptr || rank(row) > rank(*home)) home = &row;
  }
  return home;
}

// Whether it is a part of `sharing` in another place, with something below it.
bool shares_gpus(const Value& mapping, const Member& member) {
  if (member.value->kind != Node::Kind::kMapping && member.value->kind != Node::Kind::kSequence) return false;
  const Key* home = home_of(mapping, member.key);
  return home != nullptr && home->path.starts_with("sharing.") &&
         (home->type == KeyType::kSection || home->type == KeyType::kSections);
}

// Whether an alias refers to it or to a part of it. A document has at most 50,000 values, so this ends soon.
bool is_aliased(const Node& node) {
  return node.aliased || std::ranges::any_of(node.items, [](const NodePtr& item) { return is_aliased(*item); }) ||
         std::ranges::any_of(node.members, [](const Member& member) { return is_aliased(*member.value); });
}

void report_other_schemes(const Value& value) {
  if (value.is(Node::Kind::kSequence))
    for (const auto& item : value.items()) report_other_schemes(item);
  for (const auto& member : value.node().members) {
    const auto scheme = std::ranges::find(kOtherSchemes, member.key, &OtherScheme::key);
    if (scheme != std::end(kOtherSchemes))
      value.key_of(member).error(std::string(scheme->what), std::string(scheme->remedy));
    report_other_schemes(value.value_of(member));
  }
}

}  // namespace

const Node& Value::node() const {
  static const Node kNone;
  return node_ == nullptr ? kNone : *node_;
}

bool Value::null() const {
  const bool single = is(Node::Kind::kNull) || is(Node::Kind::kScalar);
  return !absent() && single && std::holds_alternative<Null>(scalar_of(*node_));
}

Value Value::of(Node::Kind kind, std::string_view expected, std::string remedy) const {
  if (given() && is(kind)) return *this;
  if (given()) wrong_type(expected, std::move(remedy));
  return {nullptr, path_, place_, *findings_};
}

Value Value::value_of(const Member& member, std::string_view key) const {
  Value value = key_of(member, key);
  if (member.value->kind != Node::Kind::kNull)  // its own place is that of the next token
    value.place_ = {place_.source, member.value->line, member.value->column};
  return value;
}

Value Value::key_of(const Member& member, std::string_view key) const {
  return {member.value.get(), path_below(path_, key.empty() ? member.key : key),
          Place{place_.source, member.line, member.column}, *findings_};
}

Value Value::absent(std::string_view key) const {
  return {nullptr, path_below(path_, key), place_, *findings_};
}

Value Value::member(std::string_view key) const {
  const Member* found = nullptr;
  for (const Member& each : node().members)
    if (each.key == key) found = &each;
  return found == nullptr ? absent(key) : value_of(*found);
}

bool Value::note_given() const {
  if (given()) findings_->given[path_] = place_;
  return given();
}

void Value::add(Severity severity, std::string what, std::string remedy) const {
  findings_->problems.add({severity, place_, path_, std::move(what), std::move(remedy)});
}

std::nullopt_t Value::refused(std::string what, std::string remedy) const {
  error(std::move(what), std::move(remedy));
  return std::nullopt;
}

void Value::ignored(std::string what, std::string remedy) const {
  add(findings_->unknown_keys == UnknownKeys::kRefused ? Severity::kError : Severity::kWarning, std::move(what),
      std::move(remedy));
}

void Value::wrong_type(std::string_view expected, std::string remedy) const {
  error("must be " + std::string(expected) + ", but is " + describe(*node_), std::move(remedy));
}

std::optional<bool> Value::boolean() const {
  if (const auto value = as<bool>()) return value;
  const bool word_in_quotes = node_->quoted && std::holds_alternative<bool>(resolve_plain(node_->text));
  wrong_type("true or false", word_in_quotes ? "write " + node_->text + " without quotes" : "write true or false");
  return std::nullopt;
}

std::optional<std::int64_t> Value::integer() const {
  if (const auto value = whole_number(scalar_of(*node_))) return value;
  const bool number_in_quotes = node_->quoted && whole_number(resolve_plain(node_->text));
  wrong_type("a whole number", number_in_quotes ? "write " + node_->text + " without quotes" : "write for example 4");
  return std::nullopt;
}

std::optional<std::int64_t> Value::integer(std::int64_t least, std::int64_t most, std::string remedy) const {
  const auto value = integer();
  if (!value || (*value >= least && *value <= most)) return value;
  return refused(
      "must be from " + std::to_string(least) + " to " + std::to_string(most) + ", but is " + std::to_string(*value),
      std::move(remedy));
}

std::optional<std::string> Value::text() const {
  if (auto value = plain_text()) return value;
  const bool scalar_of_other_type = node_->kind == Node::Kind::kScalar;
  wrong_type("text", scalar_of_other_type ? "put quotes around it: \"" + node_->text + "\"" : "write one word or path");
  return std::nullopt;
}

void Value::report_word(std::span<const std::string_view> words, const std::optional<std::string>& text) const {
  if (!text) return wrong_type(text_of_all(words), "write one of these words");
  const std::string meant = did_you_mean(*text, {words.begin(), words.end()});
  error("must be " + text_of_all(words) + ", but is " + in_quotes(*text),
        meant.empty() ? "write one of these words" : "did you mean " + meant + "?");
  note_bad_word();
}

std::vector<Value> Value::items() const {
  std::vector<Value> values;
  for (const NodePtr& item : node().items)
    values.emplace_back(item.get(), path_ + "[" + std::to_string(values.size()) + "]",
                        Place{place_.source, item->line, item->column}, *findings_);
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

Fields::Fields(const Value& mapping)
    : mapping_(mapping), known_(names_below(mapping.path())), key_case_(key_case_below(mapping.path())) {
  configures_something_ = std::ranges::any_of(mapping.node().members, [this](const Member& member) {
    const auto match = known_key(member.key);
    return match != known_.end() && *match != "version" && mapping_.key_of(member).given();
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
  return found == found_.end() ? mapping_.absent(key) : mapping_.value_of(*found->second, key);
}

std::vector<std::string_view>::const_iterator Fields::known_key(std::string_view key) const {
  return std::ranges::find_if(known_, [&](std::string_view word) {
    return key_case_ == KeyCase::kAny ? same_in_any_case(word, key) : word == key;
  });
}

void Fields::report_unknown(const Member& member) const {
  if (is_aliased(*member.value)) return;
  const Value value = mapping_.key_of(member);
  const bool at_the_top = mapping_.path().empty();
  std::string meant = at_the_top ? did_you_mean(member.key, known_) : "";
  const bool configures_nothing = at_the_top && !configures_something_;
  const bool unshares = mapping_.findings().shares_by.empty() && shares_gpus(mapping_, member);
  const bool changes_all = configures_nothing || unshares || (at_the_top && !meant.empty());
  const bool refused = changes_all || mapping_.findings().unknown_keys == UnknownKeys::kRefused;
  if (mapping_.findings().problems.full(refused ? Severity::kError : Severity::kWarning))
    return refused ? value.error({}, {}) : value.ignored({}, {});  // only counted
  const auto report = [&](std::string what, std::string remedy) {
    if (!refused) what += " and is ignored";
    changes_all ? value.error(std::move(what), std::move(remedy)) : value.ignored(std::move(what), std::move(remedy));
  };
  if (at_the_top && !meant.empty()) return report("is not a known key", "did you mean " + meant + "?");
  meant = did_you_mean(member.key, known_);
  const Key* home = home_of(mapping_, member.key);
  const auto in_other_case =
      std::ranges::find_if(known_, [&](std::string_view word) { return same_in_any_case(word, member.key); });
  if (in_other_case != known_.end())
    return report("is not a known key (upper and lower case matter here)", "write " + std::string(*in_other_case));
  const std::string without = configures_nothing ? ", and nothing else in this file configures anything"
                              : unshares         ? ", and without it this file shares no GPU"
                                                 : "";
  const auto elsewhere = std::ranges::find(kElsewhere, member.key, [](const auto& each) { return each.first; });
  if (elsewhere != std::end(kElsewhere)) return report("is not a known key" + without, std::string(elsewhere->second));
  if (home != nullptr)
    return report("is not a known key here" + without,
                  "it belongs to another section: write it as " + std::string(home->path));
  if (configures_nothing)
    return report("is not a known key" + without,
                  "write sharing: or flags: and what belongs below it; is this the right file?");
  report("is not a known key", meant.empty() ? "remove it" : "did you mean " + meant + "?");
}

bool is_other_file(const Value& root) {
  if (const Value kind = root.member("kind"); !kind.absent() && !root.member("apiVersion").absent()) {
    const std::string name = kind.is(Node::Kind::kScalar) ? kind.node().text : "object";
    root.error("is a Kubernetes object (kind " + in_quotes(name) + "), not a configuration file: it configures nothing",
               name == "ConfigMap" ? "save the value of one key below its data as a file; it begins with version: v1"
                                   : "name a file that begins with version: v1");
    report_other_schemes(root);
    return true;
  }
  if (!root.member("version").absent()) return false;
  for (const std::string_view key : {"image", "config", "devicePlugin", "migManager"})
    if (root.member(key).is(Node::Kind::kMapping)) {
      root.error("is the values file of a Helm chart (it has " + in_quotes(key) +
                     "), not a configuration file: it configures nothing",
                 "save one of the configurations in it as a file; it begins with version: v1");
      return true;
    }
  const bool of_hami = !root.member("nvidia").member("resourceCountName").absent();
  if (of_hami)
    root.error(
        "is a configuration of HAMi: it configures nothing",
        "write sharing.mps.resources: deviceSplitCount is replicas, deviceMemoryScaling is memory: {factor: 1.5}");
  return of_hami;
}

}  // namespace tranche::config
