#include "config/field.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "config/document/amounts.h"
#include "config/names.h"
#include "config/resolve.h"

namespace tranche::config {

namespace {

using Json = nlohmann::ordered_json;

std::optional<Duration> duration_in(const Value& value) {
  const auto text = value.plain_text();
  return text ? parse_duration(*text) : std::nullopt;
}

// NVIDIA's intervals: any duration, also a bare number, which counts nanoseconds.
void read_interval(const Value& value, const char* remedy, Duration& into) {
  if (const auto text = value.plain_text())
    return value.error("must be a duration, but is " + in_quotes(*text), remedy);
  const auto integer = value.as<std::int64_t>();
  const auto real = value.as<double>();
  if (!integer && !(real && *real > -9.2e18 && *real < 9.2e18)) return value.wrong_type("a duration", remedy);
  into = Duration(integer ? *integer : static_cast<std::int64_t>(*real));
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

std::optional<std::uint32_t> factor_of(const Value& value) {
  const char* remedy = "write for example factor: 2, for twice an equal part";
  if (value.is(Node::Kind::kScalar)) {
    if (const auto factor = read_factor(scalar_of(value.node()))) return factor;
    return value.refused("must be a number from 0.01 to 100 with at most two places, but is " + describe(value.node()),
                         remedy);
  }
  value.wrong_type("a number", remedy);
  return std::nullopt;
}

// The only key of a mapping, which must have a value; otherwise a Problem and nothing.
std::optional<Value> only_key(const Value& value, const std::string& remedy) {
  const Fields f(value);
  std::optional<Value> found;
  for (const std::string_view key : f.known()) {
    if (!f[key].given()) continue;
    if (found) return value.refused("says two things at once", remedy);
    found.emplace(f[key]);
  }
  if (!found) value.error("says nothing", remedy);
  return found;
}

// "20GB", "20 GiB" or "20g": a size whose unit has a different spelling. Reports it and returns true.
bool is_other_unit(const Value& value) {
  const std::string& text = value.node().text;
  const auto end = text.find_first_not_of("0123456789.");
  if (end == 0 || end == std::string::npos) return false;
  const std::string number = text.substr(0, end);
  const std::string unit(trimmed(std::string_view(text).substr(end)));
  for (const char letter : {'M', 'G', 'T'}) {
    const std::string decimal(1, letter);
    const bool binary = same_in_any_case(unit, decimal + "i") || same_in_any_case(unit, decimal + "iB");
    if (!binary && !same_in_any_case(unit, decimal) && !same_in_any_case(unit, decimal + "B")) continue;
    const std::string in_binary = number + decimal + "i";
    if (!parse_memory_size(in_binary)) return false;
    value.error(unit + " is not a unit here", "write " + (binary ? in_binary : number + decimal + " or " + in_binary));
    return true;
  }
  return false;
}

// How a share is sized: one of the words of a Kind that have no value (not a factor, and not the last), a factor, a
// number of SMs, or a size, as far as the Policy has them. `what`: what it can be.
template <class Policy>
void read_policy(const Value& value, const std::string& what, const std::string& remedy, Policy& into) {
  using Kind = typename Policy::Kind;
  if constexpr (requires { into.factor_hundredths; })
    if (value.is(Node::Kind::kMapping)) {
      const auto key = only_key(value, remedy);
      if (!key) return;
      if constexpr (requires { into.sms; })
        if (key->path().ends_with(".sms")) {
          const auto sms = key->integer(1, 1024, "write how many SMs one slot may use, for example sms: 16");
          if (sms) into = {.kind = Kind::kSms, .sms = static_cast<std::uint32_t>(*sms)};
          return;
        }
      if (const auto factor = factor_of(*key)) into = {.kind = Kind::kFactor, .factor_hundredths = *factor};
      return;
    }
  const auto kind = enum_of<Kind>(value.plain_text().value_or(""));
  if (kind && to_string(*kind) != "factor" && to_string(*kind) != enum_names<Kind>().back())
    return void(into = {.kind = *kind});
  if constexpr (requires { into.size; }) {
    if (const auto size = parse_memory_size(value.node().text))
      return void(into = {.kind = Kind::kSize, .size = *size});
    if (is_other_unit(value)) return;
  }
  value.error("must be " + what + ", but is " + describe(value.node()), remedy);
}

// Of a list: each value, split at commas.
Texts pieces_of(const GivenTexts& given) {
  Texts pieces;
  for (const std::string& value : given.values)
    for (const std::string_view piece : split(value, ',')) pieces.emplace_back(trimmed(piece));
  return pieces;
}

// Malformed addresses and UUIDs would otherwise count as names of models that no GPU has.
bool is_broken(std::string_view text) {
  if (text.find('*') != std::string_view::npos) return false;
  if (text.starts_with("GPU-")) return !is_device_reference(text);
  const bool address = text.find(':') != std::string_view::npos && text.find(' ') == std::string_view::npos;
  return address && !pci_address(text);
}

}  // namespace

std::string wrong_word(std::span<const std::string_view> words, const std::string& text) {
  const std::string meant = did_you_mean(text, {words.begin(), words.end()});
  return "must be " + text_of_all(words) + ", but is " + in_quotes(text) +
         (meant.empty() ? "" : " (did you mean " + meant + "?)");
}

void read_given(const Value& value, const Key&, bool& into) {
  into = value.boolean().value_or(into);
}

void read_given(const Value& value, const Key& key, std::string& into) {
  if (key.type == KeyType::kDriver) return read_driver_name(value, key.most, into);
  into = value.text().value_or(into);
}

void read_given(const Value& value, const Key& key, std::uint32_t& into) {
  const auto count = value.integer(key.least, key.most, "write a number in this range, or remove it");
  if (count) into = static_cast<std::uint32_t>(*count);
}

void read_given(const Value& value, const Key& key, Duration& into) {
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

void read_given(const Value& value, const Key&, Imex& into) {
  const char* remedy = "write channelIDs: [0], or remove it";
  for (const Value& item : value.of(Node::Kind::kSequence, "a list of whole numbers", remedy).items()) {
    const auto id = item.integer();
    if (!id) continue;
    if (*id == 0 && !std::exchange(into.channel, true)) continue;
    item.error("must be empty or the one channel 0, but has " + std::to_string(*id) + (*id == 0 ? " twice" : ""),
               remedy);
    item.note_bad_word();
  }
}

void read_given(const Value& value, const Key&, std::vector<ListStrategy>& into) {
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

std::optional<Bytes> read_memory_size(const Value& value, const std::string& remedy) {
  if (value.node().kind != Node::Kind::kScalar) {
    value.wrong_type("a size", remedy);
    return std::nullopt;
  }
  // The author of a number without a unit may have meant bytes, MiB or GB.
  if (const auto size = parse_memory_size(value.node().text)) return size;
  if (is_other_unit(value)) return std::nullopt;
  const bool bare = parse_unsigned(value.node().text).has_value();
  return value.refused(bare ? "has no unit: it is " + value.node().text
                            : "must be a size with a unit, at least 1Mi, but is " + describe(value.node()),
                       remedy);
}

void read_given(const Value& value, const Key&, ThreadsPolicy& into) {
  read_policy(value, "equal, open, tenant, a factor or a number of SMs",
              "write equal, open, tenant, {factor: 2} or {sms: 16}", into);
}

void read_given(const Value& value, const Key&, MemoryPolicy& into) {
  read_policy(value, "equal, open, tenant, a factor or a size with a unit",
              "write equal, open, tenant, {factor: 1.5}, or a size such as 4Gi", into);
}

void read_given(const Value& value, const Key&, Reserve& into) {
  read_policy(value, "none, auto or a size with a unit", "write none, auto, or a size such as 600Mi", into);
}

void read_given(const Value& list, const Key&, std::vector<DeviceRef>& into) {
  const char* remedy = "write a UUID, a PCI address (0000:3b:00.0), an index, or a model with * (\"NVIDIA H200*\")";
  if (list.node().items.size() > 1000) return list.error("has more than 1,000 GPUs", remedy);
  for (const Value& item : list.of(Node::Kind::kSequence, "a list", remedy).items()) {
    if (auto ref = device_reference(item);
        ref && !ref->text.starts_with("MIG-") && ref->text.find(':') == std::string::npos) {
      into.push_back(*std::move(ref));
      continue;
    }
    const auto text = item.plain_text();
    if (text && !trimmed(*text).empty() && !is_broken(*text) && !text->starts_with("MIG-"))
      into.push_back({*text});
    else
      item.error("must name GPUs, but is " + describe(item.node()), remedy);
  }
}

void read_given(const Value& devices, const Key& key, Dra& into) {
  if (!devices.is(Node::Kind::kSequence)) return read_given(devices, key, into.devices);
  if (devices.node().items.empty())
    return devices.error("is an empty list", "write the GPUs of claims, such as [0, 1], or the word none");
  into.devices = DraDevices::kListed;
  read_given(devices, key, into.listed);
}

std::optional<std::string> read_resource_name(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  auto name = resource_name(*text);
  if (name) return *std::move(name);
  return value.refused(name.error().what, "write for example nvidia.com/gpu");
}

std::optional<DeviceRef> device_reference(const Value& item) {
  const auto index = item.as<std::int64_t>();
  const auto text = index ? std::to_string(*index) : item.plain_text().value_or("");
  return is_device_reference(text) ? std::optional(DeviceRef{text}) : std::nullopt;
}

Assigned assign_to(std::string& into, const GivenTexts& given) {
  into = given.values.empty() ? "" : given.values.back();
  return "";
}

Assigned assign_to(bool& into, const GivenTexts& given) {
  // NVIDIA's rule: FAIL_ON_INIT_ERROR="" disables it.
  const std::string text = given.empty() && given.variable ? "false"
                           : given.values.empty()          ? "true"
                                                           : given.values.back();
  const auto value = parse_switch(text);
  into = value.value_or(into);
  return value ? "" : "must be true or false, but is " + in_quotes(text);
}

Assigned assign_to(Duration& into, const GivenTexts& given) {
  if (given.empty() && given.variable) return std::nullopt;
  const std::string text = given.values.empty() ? "" : given.values.back();
  const auto duration = parse_duration(text);
  into = duration.value_or(into);
  return duration ? "" : "must be a duration with a unit, such as 60s, or infinite, but is " + in_quotes(text);
}

Assigned assign_to(Texts& into, const GivenTexts& given) {
  into = pieces_of(given);
  std::erase(into, "");  // of an empty variable
  return "";
}

Assigned assign_to(Imex& into, const GivenTexts& given) {
  if (given.empty() && given.variable) return std::nullopt;
  bool channel = false;
  for (const std::string& value : pieces_of(given)) {
    const Scalar scalar = resolve_plain(value);
    const auto* number = std::get_if<std::int64_t>(&scalar);
    if (number == nullptr) return "must be whole numbers, but has " + in_quotes(value);
    if (*number != 0 || std::exchange(channel, true)) return "must be empty or the one channel 0";
  }
  into.channel = channel;
  return "";
}

Assigned assign_to(std::vector<ListStrategy>& into, const GivenTexts& given) {
  std::vector<ListStrategy> strategies;
  for (const std::string& value : pieces_of(given)) {
    const auto strategy = enum_of<ListStrategy>(value);
    if (!strategy) return "must be " + text_of_all(enum_names<ListStrategy>()) + ", but has " + in_quotes(value);
    if (std::ranges::find(strategies, *strategy) == strategies.end()) strategies.push_back(*strategy);
  }
  into = std::move(strategies);
  return "";
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

Json json_value(const Imex& value) {
  return value.channel ? Json::array({0}) : Json::array();
}

Json json_value(const std::vector<ListStrategy>& value) {
  Json list = Json::array();
  for (const ListStrategy strategy : value) list.push_back(to_string(strategy));
  return list;
}

Json json_of_words(std::string_view words) {
  const auto blank = words.find(' ');
  if (blank == std::string_view::npos) return words;
  return {{std::string(words.substr(0, blank)), Json(json_of(words.substr(blank + 1)))}};
}

bool is_in_effect(const Key& key, const Config& config) {
  if (key.path.starts_with("dra.") && config.dra == Dra{}) return false;
  return key.json != nullptr && (!key.path.starts_with("sharing.") || config.sharing.strategy == SharingStrategy::kMps);
}

void read_settings(const Fields& fields, Config& config) {
  const std::string path = fields.path();
  for (const Key& key : keys()) {
    if (key.section() != path) continue;
    if (key.read != nullptr) key.read(fields[key.name()], key, config);
    if (key.type == KeyType::kSection && !key.path.empty()) read_section(fields[key.name()], config);
  }
}

void read_section(const Value& section, Config& config) {
  if (is_mapping(section)) read_settings(Fields(section), config);
}

}  // namespace tranche::config
