#pragma once
// Reads a Document by a schema: typed values that know their path and place, and one list that collects all errors in
// them. A read function returns nothing if the value is absent, null or of a wrong type; a wrong type has been reported
// by then. One thread; exists only during parse().
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"
#include "base/text.h"
#include "config/document/document.h"
#include "config/keys.h"
#include "config/parse/parse.h"

namespace tranche::config {

// The result of a walk over a document.
struct Findings {
  std::string source;
  UnknownKeys unknown_keys = UnknownKeys::kWarned;
  ProblemList problems;
  std::map<std::string, Place> given;  // settings in the file, by path
  std::set<std::string> bad_words;     // those of them whose value is not an allowed word
  std::size_t entries = 0;             // read of all lists of resources
  std::string shares_by;               // the section of `sharing` that has a value; "" = this file shares no GPU
};

// A value in the document, or its absence.
class Value {
 public:
  Value(const Node* node, std::string path, Place place, Findings& findings)
      : node_(node), path_(std::move(path)), place_(std::move(place)), findings_(&findings) {}

  bool absent() const { return node_ == nullptr; }
  bool null() const;  // present, but empty
  bool given() const { return !absent() && !null(); }
  bool is(Node::Kind kind) const { return node().kind == kind; }
  const Node& node() const;  // of kind kNull, without a place, if it is absent
  // Itself if it has a value of that kind; else absent, and a value of another kind is reported.
  Value of(Node::Kind kind, std::string_view expected, std::string remedy) const;
  // Of a mapping: with the place of the value, or of its key if the value is empty; by another spelling of the key.
  Value value_of(const Member& member, std::string_view key = {}) const;
  Value key_of(const Member& member, std::string_view key = {}) const;  // always with the place of its key
  Value absent(std::string_view key) const;  // a member that is not there, with the place of the mapping
  // Of a file of another program, whose unknown keys are left alone: the member of that key, of repeated ones the last.
  // Absent: there is none, or this is not a mapping.
  Value member(std::string_view key) const;
  const std::string& path() const { return path_; }
  const Place& place() const { return place_; }

  void error(std::string what, std::string remedy) const { add(Severity::kError, std::move(what), std::move(remedy)); }
  std::nullopt_t refused(std::string what, std::string remedy) const;  // the same, where a function returns a value
  void warn(std::string what, std::string remedy) const { add(Severity::kWarning, std::move(what), std::move(remedy)); }
  void ignored(std::string what, std::string remedy) const;  // a warning, or an error if ignored values are refused
  void wrong_type(std::string_view expected, std::string remedy) const;  // "must be a list, but is the number 5"
  bool note_given() const;  // whether it is given: then the file has this setting
  void note_bad_word() const { findings_->bad_words.insert(path_); }

  // Of a value that is given; one of another type is reported.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<std::int64_t> integer(std::int64_t least, std::int64_t most, std::string remedy) const;
  std::optional<std::string> text() const;
  template <class T>
  std::optional<T> as() const;  // its scalar if it is one of that type; without a report
  std::optional<std::string> plain_text() const { return as<std::string>(); }
  std::vector<Value> items() const;    // of a sequence; none of anything else
  std::vector<Value> entries() const;  // of a sequence of resources; no more than a thousand in all such sequences
  template <Enumeration Enum>
  std::optional<Enum> word() const;  // reports a word that is not one of its own

  Findings& findings() const { return *findings_; }

 private:
  void add(Severity severity, std::string what, std::string remedy) const;
  void report_word(std::span<const std::string_view> words, const std::optional<std::string>& text) const;

  const Node* node_;
  std::string path_;
  Place place_;
  Findings* findings_;
};

// Reports a Kubernetes object, the values of a Helm chart or a configuration of HAMi that is given in place of a
// configuration, and in a Kubernetes object the requests and labels of other ways to share a GPU.
bool is_other_file(const Value& root);

// The members of one mapping, whose keys are those of config/keys.h below its path. The constructor reports unknown and
// repeated keys; of repeated keys the last one applies. An unknown key is a warning, and an error where ignoring it
// would leave every GPU unshared: in the file itself if it resembles a known key or no other key has a value, and
// anywhere if a part of `sharing` is in the wrong place and the file shares nothing without it. A key whose value an
// alias refers to is left alone.
class Fields {
 public:
  explicit Fields(const Value& mapping);
  Value operator[](std::string_view key) const;
  std::string path() const { return without_indices(mapping_.path()); }  // as in config/keys.h
  const std::vector<std::string_view>& known() const { return known_; }

 private:
  std::vector<std::string_view>::const_iterator known_key(std::string_view key) const;
  void report_unknown(const Member& member) const;

  const Value& mapping_;
  std::vector<std::string_view> known_;
  KeyCase key_case_;
  bool configures_something_ = false;  // a known key other than version has a value
  std::map<std::string_view, const Member*> found_;
};

// Whether the value is a mapping. Absent and null are not reported, other types are.
inline bool is_mapping(const Value& value, std::string remedy = "write keys and values below it, indented") {
  return !value.of(Node::Kind::kMapping, "a mapping", std::move(remedy)).absent();
}

template <class T>
std::optional<T> Value::as() const {
  const Scalar scalar = scalar_of(node());
  const auto* value = std::get_if<T>(&scalar);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

template <Enumeration Enum>
std::optional<Enum> Value::word() const {
  const auto text = plain_text();
  if (text)
    if (const auto value = enum_of<Enum>(*text)) return value;
  // Unquoted "off" is the boolean false in YAML 1.1; here it can only mean the word.
  if (const auto off = enum_of<Enum>("off"); off && is(Node::Kind::kScalar) && scalar_of(node()) == Scalar{false})
    return off;
  report_word(enum_names<Enum>(), text);
  return std::nullopt;
}

}  // namespace tranche::config
