#pragma once
// A YAML or JSON text as a tree in which everything knows its place: the only file that sees yaml-cpp is document.cpp.
// Anchors and merge keys are resolved. Nothing is typed or judged here beyond syntax. A node may have several parents
// (aliases), so a tree can be far larger than its text: walk it by a schema, never as a whole. Pure.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/document/scalar.h"

namespace tranche::config {

struct Node;
using NodePtr = std::shared_ptr<const Node>;

struct Member {
  std::string key;
  int line = 0;  // of the key
  int column = 0;
  NodePtr value;
  bool merged = false;  // came in by "<<"
};

struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  int line = 0;
  int column = 0;
  std::string text;     // scalar
  bool quoted = false;  // scalar: text whatever it looks like
  std::vector<NodePtr> items;
  std::vector<Member> members;  // in file order, duplicates included
  int height = 0;
};

struct Document {
  NodePtr root;  // nullptr = empty text, or a Problem
  std::optional<Problem> problem;
};

// A configuration, of at most 1 MiB: of several documents only the first.
Document read_document(std::string_view text, std::string_view source);

// Every document of a text of at most `largest` bytes, empty ones left out. The one with a Problem is the last: what
// comes after a syntax error means nothing.
std::vector<Document> read_documents(std::string_view text, std::string_view source, std::size_t largest);

Scalar scalar_of(const Node& node);      // of a null or scalar
std::string describe(const Node& node);  // "a list", "the number 5"

}  // namespace tranche::config
