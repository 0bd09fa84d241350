#include "config/field.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "config/document/amounts.h"
#include "config/names.h"

namespace tranche::config {

std::string wrong_word(std::span<const std::string_view> words, const std::string& text) {
  const std::string meant = did_you_mean(text, {words.begin(), words.end()});
  return "must be " + text_of_all(words) + ", but is " + in_quotes(text) +
         (meant.empty() ? "" : " (did you mean " + meant + "?)");
}

namespace {

using Json = nlohmann::ordered_json;

std::optional<Duration> duration_in(const Value& value) {
  const auto text = value.plain_text();
  return text ? parse_duration(*text) : std::nullopt;
}

// NVIDIA's intervals: any duration, also a bare number, which counts nanoseconds.
void read_interval(const Value& value, const char* remedy, Duration& into) {
  const Scalar scalar = scalar_of(value.node());
  if (const auto* text = std::get_if<std::string>(&scalar))
    return value.error("must be a duration, but is " + in_quotes(*text), remedy);
  const auto* integer = std::get_if<std::int64_t>(&scalar);
  const auto* real = std::get_if<double>(&scalar);
  if (integer == nullptr && (real == nullptr || !(*real > -9.2e18 && *real < 9.2e18)))
    return value.wrong_type("a duration", remedy);
  into = Duration(integer != nullptr ? *integer : static_cast<std::int64_t>(*real));
  if (into < std::chrono::seconds(1))
    value.warn("is a bare number, which counts nanoseconds: labels would be renewed without a pause",
               "write a unit: " + value.node().text + "s");
}

// 0 disables it; more often than every ten seconds, a pool would do little else.
void read_proof_interval(const Value& value, Duration& into) {
  const auto duration =
      scalar_of(value.node()) == Scalar{std::int64_t{0}} ? Duration{} : duration_in(value).value_or(kInfinite);
  if (duration != kInfinite && (duration == Duration{} || duration >= std::chrono::seconds(10)))
    into = duration;
  else
    value.error("must be 0 or a duration of at least 10s, but is " + in_quotes(value.node().text),
                "write for example 10m, or 0 for no proofs");
}

void read_driver_name(const Value& value, std::uint32_t longest, std::string& into) {
  const char* remedy = "write for example gpu.tranche.io, or remove it";
  const auto text = value.plain_text();
  if (!text) return value.wrong_type("the name of a DRA driver", remedy);
  if (text->size() > longest)
    return value.error(
        "has " + std::to_string(text->size()) + " characters, and " + std::to_string(longest) + " are the most",
        remedy);
  if (!is_subdomain(*text))
    return value.error(
        "must be a DNS subdomain (lower-case letters, digits, \"-\" and \".\"), but is " + in_quotes(*text), remedy);
  if (text->front() < 'a' || text->front() > 'z')  // it is the vendor in names of CDI devices as well
    return value.error("must begin with a letter, but is " + in_quotes(*text), remedy);
  into = *text;
}

}  // namespace

void read_into(const Value& value, const Key& key, std::string& into) {
  if (key.type != KeyType::kDriver) return value.read(into);
  if (value.note_given()) read_driver_name(value, key.most, into);
}

void read_into(const Value& value, const Key& key, std::uint32_t& into) {
  if (!value.note_given()) return;
  const auto count = value.integer(key.least, key.most, "write a number in this range, or remove it");
  if (count) into = static_cast<std::uint32_t>(*count);
}

void read_into(const Value& value, const Key& key, Duration& into) {
  if (!value.note_given()) return;
  const bool bounded = key.most != 0;
  const std::string remedy = bounded ? "write for example " + key.usual : "write for example 60s, 1m30s or infinite";
  if (value.node().kind != Node::Kind::kScalar) return value.wrong_type("a duration", remedy);
  if (key.type == KeyType::kProof) return read_proof_interval(value, into);
  const auto duration = duration_in(value);
  if (!duration && !bounded) return read_interval(value, remedy.c_str(), into);
  if (!duration && !value.plain_text()) return value.wrong_type("a duration", remedy);
  if (!duration) return value.error("must be a duration, but is " + in_quotes(value.node().text), remedy);
  const Duration least = std::chrono::milliseconds(key.least);
  const Duration most = std::chrono::milliseconds(key.most);
  if (bounded && (*duration < least || *duration > most))
    return value.error(
        "must be from " + render_duration(least) + " to " + render_duration(most) + ", but is " + value.node().text,
        remedy);
  into = *duration;
}

void read_into(const Value& value, const Key&, std::vector<int>& into) {
  if (!value.note_given()) return;
  const char* remedy = "write channelIDs: [0], or remove it";
  if (value.node().kind != Node::Kind::kSequence) return value.wrong_type("a list of whole numbers", remedy);
  for (const Value& item : value.items()) {
    const auto id = item.integer();
    if (!id) continue;
    if (*id == 0 && into.empty()) {
      into.push_back(0);
      continue;
    }
    item.error("must be empty or the one channel 0, but has " + std::to_string(*id) + (*id == 0 ? " twice" : ""),
               remedy);
    item.note_bad_word();
  }
}

void read_into(const Value& value, const Key&, std::vector<ListStrategy>& into) {
  if (!value.note_given()) return;
  const bool single = value.node().kind == Node::Kind::kScalar;
  if (!single && value.node().kind != Node::Kind::kSequence)
    return value.wrong_type("a word or a list of words", "write for example deviceListStrategy: [envvar]");
  std::vector<ListStrategy> strategies;
  for (const Value& item : single ? std::vector<Value>{value} : value.items()) {
    const auto word = item.plain_text();
    if (word && word->contains(',')) {
      item.error("must be " + text_of_all(enum_names<ListStrategy>()) + ", but is " + in_quotes(*word),
                 "a file does not split at commas: write a list, [" + *word + "]");
      item.note_bad_word();
    } else if (const auto strategy = item.word<ListStrategy>();
               strategy && std::ranges::find(strategies, *strategy) == strategies.end()) {
      strategies.push_back(*strategy);
    }
  }
  if (!single && value.node().items.empty())
    value.warn("is an empty list, so that containers would receive no device list",
               "remove it to get the default, envvar");
  into = std::move(strategies);
}

std::string assign_to(std::string& into, const Texts& values) {
  into = values.back();
  return {};
}

std::string assign_to(bool& into, const Texts& values) {
  into = values.back() == "true";
  return {};
}

std::string assign_to(Duration& into, const Texts& values) {
  const auto duration = parse_duration(values.back());
  if (!duration) return "must be a duration with a unit, such as 60s, or infinite, but is " + in_quotes(values.back());
  into = *duration;
  return {};
}

std::string assign_to(Texts& into, const Texts& values) {
  into = values;
  std::erase(into, "");  // the result of an empty variable
  return {};
}

std::string assign_to(std::vector<int>& into, const Texts& values) {
  std::vector<int> channels;
  for (const std::string& value : values) {
    const Scalar scalar = resolve_plain(value);
    const auto* number = std::get_if<std::int64_t>(&scalar);
    if (number == nullptr) return "must be whole numbers, but has " + in_quotes(value);
    if (*number != 0 || !channels.empty()) return "must be empty or the one channel 0";
    channels.push_back(0);
  }
  into = std::move(channels);
  return {};
}

std::string assign_to(std::vector<ListStrategy>& into, const Texts& values) {
  std::vector<ListStrategy> strategies;
  for (const std::string& value : values) {
    const auto strategy = enum_of<ListStrategy>(value);
    if (!strategy) return "must be " + text_of_all(enum_names<ListStrategy>()) + ", but has " + in_quotes(value);
    if (std::ranges::find(strategies, *strategy) == strategies.end()) strategies.push_back(*strategy);
  }
  into = std::move(strategies);
  return {};
}

std::string shown(const Json& value) {
  if (value.is_null()) return "the driver's limit";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) return value.items().begin().key() + " " + json_text(value.front());
  if (!value.is_array()) return json_text(value);
  return join(value, ",", shown);
}

Json json_value(Duration value) {
  // One more than any notation with a unit can express.
  return value == Duration::min() ? Json(value.count()) : Json(render_duration(value));
}

Json json_value(std::uint32_t value) {
  return value == 0 ? Json() : Json(value);
}

Json json_value(const std::vector<DeviceRef>& value) {
  Json list;
  for (const DeviceRef& ref : value) list.push_back(ref.text);
  return list;
}

Json json_value(const Dra& value) {
  return value.devices == DraDevices::kListed ? json_value(value.listed) : Json(to_string(value.devices));
}

Json json_value(const std::vector<ListStrategy>& value) {
  Json list = Json::array();
  for (const ListStrategy strategy : value) list.push_back(to_string(strategy));
  return list;
}

namespace {

Json number(std::uint32_t hundredths) {
  return hundredths % 100 == 0 ? Json(hundredths / 100) : Json(hundredths / 100.0);
}

}  // namespace

Json json_value(const ThreadsPolicy& policy) {
  if (policy.kind == ThreadsPolicy::Kind::kFactor) return {{"factor", number(policy.factor_hundredths)}};
  if (policy.kind == ThreadsPolicy::Kind::kSms) return {{"sms", policy.sms}};
  return to_string(policy);
}

Json json_value(const MemoryPolicy& policy) {
  if (policy.kind == MemoryPolicy::Kind::kFactor) return {{"factor", number(policy.factor_hundredths)}};
  return to_string(policy);
}

void read_settings(const Fields& fields, Target& target) {
  const std::string path = fields.path();
  for (const Key& key : keys()) {
    if (key.section() != path) continue;
    if (key.read != nullptr) key.read(fields[key.name()], key, target);
    if (key.type == KeyType::kSection && !key.path.empty()) read_section(fields[key.name()], target);
  }
}

void read_section(const Value& section, Target& target) {
  if (is_mapping(section)) read_settings(Fields(section), target);
}

}  // namespace tranche::config
