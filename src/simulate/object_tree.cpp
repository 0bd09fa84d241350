#include "simulate/object_tree.h"

namespace tranche::simulate {
namespace {

using config::Value;

Value absent(const Value& parent, std::string path) {
  return {nullptr, std::move(path), parent.place(), parent.findings()};
}

}  // namespace

Value member(const Value& mapping, std::string_view key) {
  std::string path = mapping.path().empty() ? std::string(key) : mapping.path() + "." + std::string(key);
  const config::Member* found = nullptr;
  if (mapping.given() && mapping.node().kind == config::Node::Kind::kMapping)
    for (const auto& each : mapping.node().members)
      if (each.key == key) found = &each;
  if (found == nullptr) return absent(mapping, std::move(path));
  const bool empty = found->value->kind == config::Node::Kind::kNull;  // its own place is that of the next token
  const Place place{mapping.place().source, empty ? found->line : found->value->line,
                    empty ? found->column : found->value->column};
  return {found->value.get(), std::move(path), place, mapping.findings()};
}

Value mapping_at(const Value& mapping, std::string_view key) {
  Value value = member(mapping, key);
  if (!value.given()) return absent(mapping, value.path());
  if (value.node().kind == config::Node::Kind::kMapping) return value;
  value.wrong_type("a mapping", "write its fields below it, indented");
  return absent(mapping, value.path());
}

std::vector<Value> list_at(const Value& mapping, std::string_view key) {
  const Value value = member(mapping, key);
  if (!value.given()) return {};
  if (value.node().kind == config::Node::Kind::kSequence) return value.items();
  value.wrong_type("a list", "begin each entry with a dash");
  return {};
}

std::string text_at(const Value& mapping, std::string_view key) {
  const Value value = member(mapping, key);
  if (!value.given()) return {};
  if (value.node().kind == config::Node::Kind::kScalar) return value.node().text;
  value.wrong_type("text", "write one word");
  return {};
}

}  // namespace tranche::simulate
