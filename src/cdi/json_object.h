#pragma once
// Private to cdi: reads the members of one JSON object; every error becomes a Problem with the path of the field.
// Included by .cpp files only, through cdi/json.cpp.
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tranche::cdi {

using Json = nlohmann::ordered_json;

class Object {
 public:
  Object(const Json& json, std::string path, std::vector<Problem>& problems, std::string_view source)
      : json_(json), path_(std::move(path)), problems_(problems), source_(source) {}

  bool has(const char* key) const { return find(key) != nullptr; }
  void only(std::initializer_list<std::string_view> keys) const;  // every other key is a Problem
  void text(const char* key, std::string& into, bool required) const;
  void texts(const char* key, std::vector<std::string>& into) const;
  void number(const char* key, std::optional<std::int64_t>& into) const;
  void number(const char* key, std::optional<std::uint32_t>& into) const;
  void numbers(const char* key, std::vector<std::uint32_t>& into) const;
  void map(const char* key, std::map<std::string, std::string>& into) const;
  std::optional<Object> object(const char* key, bool required) const;
  template <class Read>  // each object of the list at `key`
  void each(const char* key, Read read) const {
    for (std::size_t i = 0; i < length(key); ++i)
      if (const auto item = at(key, i)) read(*item);
  }

  void refuse(std::string_view key, std::string what, std::string remedy) const;
  void refuse_if(std::string_view key, const std::string& fault, std::string remedy) const {
    if (!fault.empty()) refuse(key, fault, std::move(remedy));
  }

 private:
  const Json* find(std::string_view key) const;
  std::size_t length(const char* key) const;  // of a list; a Problem if it is not a list
  std::optional<Object> at(const char* key, std::size_t index) const;
  std::string path_of(std::string_view key) const;

  const Json& json_;
  std::string path_;
  std::vector<Problem>& problems_;
  std::string_view source_;
};

}  // namespace tranche::cdi
