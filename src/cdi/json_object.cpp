#include "cdi/json_object.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace tranche::cdi {
namespace {

constexpr const char* kWriteNumber = "write a whole number, not negative";

std::string numbered(std::string_view key, std::size_t index) {
  return std::string(key) + "[" + std::to_string(index) + "]";
}

// A whole number from 0 to `most`.
std::optional<std::uint64_t> whole_number(const Json& json, std::uint64_t most) {
  if (!json.is_number_unsigned() && !(json.is_number_integer() && json.get<std::int64_t>() >= 0)) return std::nullopt;
  const auto value = json.get<std::uint64_t>();
  return value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace

const Json* Object::find(std::string_view key) const {
  const auto found = json_.find(std::string(key));
  return found == json_.end() ? nullptr : &*found;
}

std::string Object::path_of(std::string_view key) const {
  if (key.empty() || path_.empty()) return path_ + std::string(key);
  return path_ + "." + std::string(key);
}

void Object::refuse(std::string_view key, std::string what, std::string remedy) const {
  problems_.push_back(
      {Severity::kError, {std::string(source_), 0, 0}, path_of(key), std::move(what), std::move(remedy)});
}

void Object::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : json_.items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const std::string meant = did_you_mean(key, {keys.begin(), keys.end()});
    refuse("", "has the unknown field " + in_quotes(key),
           meant.empty() ? "leave it out" : "did you mean " + meant + "?");
  }
}

void Object::text(const char* key, std::string& into, bool required) const {
  const Json* value = find(key);
  if (value == nullptr) {
    if (required) refuse(key, "is missing", "write it as text");
    return;
  }
  if (!value->is_string()) return refuse(key, "must be text", "put it in double quotes");
  into = value->get<std::string>();
  if (required && into.empty()) refuse(key, "must not be empty", "write it out");
}

std::size_t Object::length(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return 0;
  if (value->is_array()) return value->size();
  refuse(key, "must be a list", "put it in [ ]");
  return 0;
}

std::optional<Object> Object::at(const char* key, std::size_t index) const {
  const Json& item = (*find(key))[index];
  if (item.is_object()) return Object(item, path_of(numbered(key, index)), problems_, source_);
  refuse(numbered(key, index), "must be an object", "put it in { }");
  return std::nullopt;
}

void Object::texts(const char* key, std::vector<std::string>& into) const {
  for (std::size_t i = 0; i < length(key); ++i) {
    const Json& item = (*find(key))[i];
    if (!item.is_string()) {
      refuse(numbered(key, i), "must be text", "put it in double quotes");
    } else {
      into.push_back(item.get<std::string>());
    }
  }
}

void Object::number(const char* key, std::optional<std::int64_t>& into) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  const auto number = whole_number(*value, std::numeric_limits<std::int64_t>::max());
  if (!number) return refuse(key, "must be a whole number, not negative", kWriteNumber);
  into = static_cast<std::int64_t>(*number);
}

void Object::number(const char* key, std::optional<std::uint32_t>& into) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  const auto number = whole_number(*value, std::numeric_limits<std::uint32_t>::max());
  if (!number) return refuse(key, "must be a whole number from 0 to 4294967295", kWriteNumber);
  into = static_cast<std::uint32_t>(*number);
}

void Object::numbers(const char* key, std::vector<std::uint32_t>& into) const {
  for (std::size_t i = 0; i < length(key); ++i) {
    const auto number = whole_number((*find(key))[i], std::numeric_limits<std::uint32_t>::max());
    if (!number) {
      refuse(numbered(key, i), "must be a whole number from 0 to 4294967295", kWriteNumber);
    } else {
      into.push_back(static_cast<std::uint32_t>(*number));
    }
  }
}

void Object::map(const char* key, std::map<std::string, std::string>& into) const {
  const auto inner = object(key, false);
  if (!inner) return;
  for (const auto& [name, value] : inner->json_.items()) {
    if (!value.is_string()) {
      inner->refuse(name, "must be text", "put it in double quotes");
    } else {
      into[name] = value.get<std::string>();
    }
  }
}

std::optional<Object> Object::object(const char* key, bool required) const {
  const Json* value = find(key);
  if (value == nullptr) {
    if (required) refuse(key, "is missing", "write it as an object");
    return std::nullopt;
  }
  if (value->is_object()) return Object(*value, path_of(key), problems_, source_);
  refuse(key, "must be an object", "put it in { }");
  return std::nullopt;
}

}  // namespace tranche::cdi
