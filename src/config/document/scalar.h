#pragma once
// What a plain (unquoted) YAML scalar means, by the YAML 1.1 rules that NVIDIA's parser follows: yes/no/on/off are
// booleans, 010 is eight, 0x10 sixteen, 1_000 a thousand, base 60 is not read. yaml-cpp itself does not type. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace tranche::config {

struct Null {
  friend bool operator==(const Null&, const Null&) = default;
};
using Scalar = std::variant<Null, bool, std::int64_t, double, std::string>;

// An integer beyond 64 bits comes back as a double.
Scalar resolve_plain(std::string_view text);

// As the type comes: "nothing", "true", "the number 5", "the text \"x\"".
std::string describe(const Scalar& scalar);

}  // namespace tranche::config
