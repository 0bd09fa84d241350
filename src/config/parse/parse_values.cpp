// The values of keys that have a grammar of their own: how shares are sized, and which GPUs are meant.
#include "base/text.h"
#include "config/document/amounts.h"
#include "config/names.h"
#include "config/parse/sections.h"

namespace tranche::config {
namespace {

constexpr std::int64_t kMostSms = 1024;

// An SM count that a GPU can have.
void read_sms(const Value& value, ThreadsPolicy& into) {
  const auto sms = value.integer(1, kMostSms, "write how many SMs one slot may use, for example sms: 16");
  if (sms) into = {ThreadsPolicy::Kind::kSms, 100, static_cast<std::uint32_t>(*sms)};
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

// Of the words in a Policy's Kind, those without a value: not a factor, and not the last.
template <class Policy>
bool read_policy_word(const Value& value, Policy& into) {
  using Kind = typename Policy::Kind;
  const auto kind = enum_of<Kind>(value.plain_text().value_or(""));
  if (!kind || to_string(*kind) == "factor" || to_string(*kind) == enum_names<Kind>().back()) return false;
  into = {.kind = *kind};
  return true;
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

template <class Policy>
void read_word_or_size(const Value& value, const std::string& what, const std::string& remedy, Policy& into) {
  if (read_policy_word(value, into)) return;
  if (const auto size = parse_memory_size(value.node().text))
    into = {.kind = Policy::Kind::kSize, .size = *size};
  else if (!is_other_unit(value))
    value.error("must be " + what + " with a unit, but is " + describe(value.node()), remedy);
}

// Malformed addresses and UUIDs would otherwise count as names of models that no GPU has.
bool is_broken(std::string_view text) {
  if (text.find('*') != std::string_view::npos) return false;
  if (text.starts_with("GPU-")) return !is_device_reference(text);
  const bool address = text.find(':') != std::string_view::npos && text.find(' ') == std::string_view::npos;
  return address && !pci_address(text);
}

}  // namespace

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

void read_value(const Value& value, ThreadsPolicy& into) {
  if (!value.note_given()) return;
  const std::string remedy = "write equal, open, tenant, {factor: 2} or {sms: 16}";
  if (value.node().kind == Node::Kind::kMapping) {
    const auto key = only_key(value, remedy);
    if (!key) return;
    if (key->path().ends_with(".sms")) return read_sms(*key, into);
    if (const auto factor = factor_of(*key)) into = {ThreadsPolicy::Kind::kFactor, *factor, 0};
    return;
  }
  if (!read_policy_word(value, into))
    value.error("must be equal, open, tenant, a factor or a number of SMs, but is " + describe(value.node()), remedy);
}

void read_value(const Value& value, MemoryPolicy& into) {
  if (!value.note_given()) return;
  const std::string remedy = "write equal, open, tenant, {factor: 1.5}, or a size such as 4Gi";
  if (value.node().kind == Node::Kind::kMapping) {
    const auto key = only_key(value, remedy);
    if (!key) return;
    if (const auto factor = factor_of(*key)) into = {MemoryPolicy::Kind::kFactor, *factor, {}};
    return;
  }
  read_word_or_size(value, "equal, open, tenant, a factor or a size", remedy, into);
}

void read_value(const Value& value, Reserve& into) {
  if (value.note_given())
    read_word_or_size(value, "none, auto or a size", "write none, auto, or a size such as 600Mi", into);
}

void read_split(const Value& value, std::optional<SplitPolicy>& into) {
  if (!value.note_given()) return;
  if (const auto split = value.word<SplitPolicy>()) into = split;
}

void read_value(const Value& list, std::vector<DeviceRef>& into) {
  if (!list.note_given()) return;
  const char* remedy = "write a UUID, a PCI address (0000:3b:00.0), an index, or a model with * (\"NVIDIA H200*\")";
  if (list.node().kind != Node::Kind::kSequence) return list.wrong_type("a list", remedy);
  if (list.node().items.size() > 1000) return list.error("has more than 1,000 GPUs", remedy);
  for (const Value& item : list.items()) {
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

void read_value(const Value& devices, Dra& into) {
  if (!devices.given() || devices.node().kind != Node::Kind::kSequence) return devices.read_word(into.devices);
  if (devices.node().items.empty())
    return devices.error("is an empty list", "write the GPUs of claims, such as [0, 1], or the word none");
  into.devices = DraDevices::kListed;
  read_value(devices, into.listed);
}

}  // namespace tranche::config
