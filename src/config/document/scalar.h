#pragma once
// The value of a plain (unquoted) YAML scalar, by the YAML 1.1 rules of NVIDIA's parser: yes/no/on/off are booleans,
// 010 is eight, 0x10 sixteen, 1_000 a thousand; base 60 is not supported. yaml-cpp itself does not assign types. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace tranche::config {

struct Null {
  friend bool operator==(const Null&, const Null&) = default;
};
using Scalar = std::variant<Null, bool, std::int64_t, double, std::string>;

// An integer beyond 64 bits is returned as a double.
Scalar resolve_plain(std::string_view text);

// For messages: "nothing", "true", "the number 5", "the text \"x\"".
std::string describe(const Scalar& scalar);

}  // namespace tranche::config
