#pragma once
// A YAML or JSON text as a tree in which every node knows its place; only document.cpp parses with yaml-cpp. Anchors
// and merge keys are resolved. Only syntax is checked here; values have no types yet. A node may have several parents
// (aliases), so a tree of read_documents() can be far larger than its text: walk it by a schema, never as a whole.
// Pure.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/document/amounts.h"

namespace tranche::config {

struct Node;
using NodePtr = std::shared_ptr<const Node>;

struct Member {
  std::string key;
  int line = 0;  // of the key
  int column = 0;
  NodePtr value;
};

struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  int line = 0;
  int column = 0;
  std::string text;     // scalar
  bool quoted = false;  // scalar: text, whatever it looks like
  std::vector<NodePtr> items;
  std::vector<Member> members;  // in file order, duplicates included
  bool aliased = false;         // an alias refers to it
  int height = 0;
  std::size_t values = 1;  // it and those in it, at each place of an alias
};

struct Document {
  NodePtr root;  // nullptr = empty text, or there is a Problem
  std::optional<Problem> problem;
  NodePtr ignored;  // of read_document(): the second document, if it is not empty
};

// A configuration, of at most 1 MiB and 50,000 values, without invisible characters outside of quotes and comments; of
// several documents only the first.
Document read_document(std::string_view text, std::string_view source);

// All non-empty documents of a text of at most `largest` bytes, with any number of values. One with a Problem is the
// last: text after a syntax error has no meaning.
std::vector<Document> read_documents(std::string_view text, std::string_view source, std::size_t largest);

Scalar scalar_of(const Node& node);      // Null for all but scalars
std::string describe(const Node& node);  // "a list", "the number 5"

}  // namespace tranche::config
