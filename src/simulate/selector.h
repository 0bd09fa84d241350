#pragma once
// The selector of a device class or of a request, as far as it is a comparison that needs no interpreter of CEL:
//   device.driver == "gpu.tranche.io" && device.attributes["gpu.tranche.io"].type == "shared"
//   device.allowMultipleAllocations
// joined by &&, with == or !=. Any other expression is not evaluated, and the caller says so. Pure; fuzzed.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::simulate {

// "shared" as a string is "\"shared\""; 5 and true stand as they are.
struct SelectorTerm {
  enum class Of { kDriver, kAttribute, kShared };
  Of of = Of::kDriver;
  std::string attribute = {};  // "gpu.tranche.io/type"
  std::string value;
  bool equal = true;
  friend bool operator==(const SelectorTerm&, const SelectorTerm&) = default;
};

struct Selector {
  std::string expression;
  std::optional<std::vector<SelectorTerm>> terms;  // all must hold; absent: it is not evaluated
  friend bool operator==(const Selector&, const Selector&) = default;
};
Selector parse_selector(std::string_view expression);

// What a selector sees of a device. Attributes by qualified name, values as in SelectorTerm.
struct SelectorView {
  const std::string& driver;
  const std::map<std::string, std::string>& attributes;
  bool shared = false;
};
// kFails: an attribute is not there, which the scheduler reports as an error of the pod and not as "no match".
enum class Match { kNo, kYes, kFails };
Match match(const Selector& selector, const SelectorView& device);  // kYes where it is not evaluated

}  // namespace tranche::simulate
