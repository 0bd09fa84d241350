#pragma once
// Inside config/ only: how a setting of each type is read from a file, assigned by a flag or variable, written as JSON,
// and shown to people. config/keys.cpp connects the rows of its table with the members of a Config by these. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "config/document/fields.h"
#include "config/keys.h"
#include "config/model.h"

namespace tranche::config {

using Texts = std::vector<std::string>;

// Of a value that is given. An invalid one is reported and leaves `into` unchanged.
void read_given(const Value& value, const Key&, bool& into);
void read_given(const Value& value, const Key& key, std::string& into);
void read_given(const Value& value, const Key& key, std::uint32_t& into);
void read_given(const Value& value, const Key& key, Duration& into);
void read_given(const Value& value, const Key&, Imex& into);  // its channel
void read_given(const Value& value, const Key&, std::vector<ListStrategy>& into);
void read_given(const Value& list, const Key&, std::vector<DeviceRef>& into);  // patterns of GPUs
void read_given(const Value& devices, const Key&, Dra& into);                  // dra.devices: none, all, or a list
void read_given(const Value& value, const Key&, ThreadsPolicy& into);  // equal, open, tenant, {factor: 2}, {sms: 16}
void read_given(const Value& value, const Key&, MemoryPolicy& into);   // equal, open, tenant, {factor: 2}, 4Gi
void read_given(const Value& value, const Key&, Reserve& into);        // none, auto, 600Mi
template <Enumeration Enum>
void read_given(const Value& value, const Key&, Enum& into) {
  into = value.word<Enum>().value_or(into);
}
template <Enumeration Enum>
void read_given(const Value& value, const Key&, std::optional<Enum>& into) {
  if (const auto word = value.word<Enum>()) into = word;
}
// The same of any value: one that is absent leaves `into` unchanged too.
template <class T>
void read_into(const Value& value, T& into, const Key& key = {}) {
  if (value.note_given()) read_given(value, key, into);
}
// Absent, with a Problem, if it is not valid: a size, and a resource's full name.
std::optional<Bytes> read_memory_size(const Value& value, const std::string& remedy);
std::optional<std::string> read_resource_name(const Value& value);
// "0", "0:1", a UUID, or the number of an index; absent for anything else, without a report.
std::optional<DeviceRef> device_reference(const Value& item);

std::string wrong_word(std::span<const std::string_view> words, const std::string& text);
// As Key::assign.
using Assigned = std::optional<std::string>;
Assigned assign_to(std::string& into, const GivenTexts& given);
Assigned assign_to(bool& into, const GivenTexts& given);
Assigned assign_to(Duration& into, const GivenTexts& given);
Assigned assign_to(Texts& into, const GivenTexts& given);
Assigned assign_to(Imex& into, const GivenTexts& given);
Assigned assign_to(std::vector<ListStrategy>& into, const GivenTexts& given);
template <Enumeration Enum>
Assigned assign_to(Enum& into, const GivenTexts& given) {
  const std::string text = given.values.empty() ? "" : given.values.back();
  const auto value = enum_of<Enum>(text);
  into = value.value_or(into);
  return value ? "" : wrong_word(enum_names<Enum>(), text);
}

// As a file has it; null = a file has no notation for it.
nlohmann::ordered_json json_value(Duration value);
nlohmann::ordered_json json_value(std::uint32_t value);
nlohmann::ordered_json json_value(const std::vector<ListStrategy>& value);
nlohmann::ordered_json json_value(const std::vector<DeviceRef>& value);
nlohmann::ordered_json json_value(const Dra& value);           // its devices
nlohmann::ordered_json json_value(const Imex& value);          // its channels
nlohmann::ordered_json json_of_words(std::string_view words);  // "factor 1.5" → {"factor": 1.5}
template <class T>
nlohmann::ordered_json json_value(const T& value) {
  if constexpr (requires { to_string(value); })
    return json_of_words(to_string(value));
  else
    return value;
}

// For people: "5s", "envvar,cdi-cri", "factor 2".
std::string shown(const nlohmann::ordered_json& value);

template <class T>
constexpr KeyType type_of() {
  if constexpr (std::is_same_v<T, bool>) return KeyType::kSwitch;
  if constexpr (std::is_enum_v<T>) return KeyType::kWord;
  if constexpr (std::is_same_v<T, std::uint32_t>) return KeyType::kCount;
  if constexpr (std::is_same_v<T, Duration>) return KeyType::kDuration;
  if constexpr (std::is_same_v<T, Imex>) return KeyType::kChannels;
  if constexpr (std::is_same_v<T, std::vector<ListStrategy>>) return KeyType::kWordList;
  if constexpr (std::is_same_v<T, ThreadsPolicy>) return KeyType::kThreads;
  if constexpr (std::is_same_v<T, MemoryPolicy>) return KeyType::kMemory;
  if constexpr (std::is_same_v<T, Reserve>) return KeyType::kReserve;
  if constexpr (std::is_same_v<T, std::vector<DeviceRef>>) return KeyType::kGpus;
  if constexpr (std::is_same_v<T, Dra>) return KeyType::kSomeGpus;
  if constexpr (std::is_same_v<T, Texts>) return KeyType::kTexts;
  return KeyType::kText;
}

// Whether it is a setting with one value, of a section that this configuration uses.
bool is_in_effect(const Key& key, const Config& config);

// Reads every setting below a mapping that has one value, by its row in config/keys.h, and those of the sections in it.
void read_settings(const Fields& fields, Config& config);
void read_section(const Value& section, Config& config);

}  // namespace tranche::config
