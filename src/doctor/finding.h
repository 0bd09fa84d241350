#pragma once
// The findings of `tranche check`, `tranche verify` and `tranche reset`, each with its remedy, and their reports: text,
// JSON, and JUnit's XML for tools that show test results. Pure values.
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/enum_names.h"

namespace tranche::doctor {

enum class Verdict { kPass, kNote, kWarning, kFail, kSkip };
ENUM_NAMES(Verdict::kSkip, "PASS", "NOTE", "WARN", "FAIL", "SKIP")

struct Finding {
  Verdict verdict = Verdict::kSkip;
  std::string id;           // stable: "driver.version", "deep.memory.beyond"
  std::string about;        // the object: a path, a resource, a pool, a GPU's UUID; "" where there is only one
  std::string what;         // one sentence: the finding, with figures
  std::string remedy = {};  // what the operator does; "" = nothing
  friend bool operator==(const Finding&, const Finding&) = default;
};

// In the order in which the checks added them.
struct Findings : std::vector<Finding> {
  using vector::vector;
  std::function<void(const Finding&)> on_add;  // for a report that is printed while the checks run; called inside add()

  void add(Finding finding);
  // With the texts of a Finding, in their order.
  void pass(auto&&... texts) { add({Verdict::kPass, std::forward<decltype(texts)>(texts)...}); }
  void note(auto&&... texts) { add({Verdict::kNote, std::forward<decltype(texts)>(texts)...}); }
  void warn(auto&&... texts) { add({Verdict::kWarning, std::forward<decltype(texts)>(texts)...}); }
  void fail(auto&&... texts) { add({Verdict::kFail, std::forward<decltype(texts)>(texts)...}); }
  void skip(auto&&... texts) { add({Verdict::kSkip, std::forward<decltype(texts)>(texts)...}); }
  // pass() with `what`; if it has not passed, `otherwise` with `what_else` and the remedy.
  void pass_or(Verdict otherwise, bool passed, std::string id, std::string about, std::string what,
               std::string what_else, std::string remedy);
};

struct Report {
  std::string subject;  // "node n1", "this node"
  Findings findings;
};

// 0: nothing failed and something passed; 1: something failed; 2: nothing could be checked.
int exit_status(const Findings& findings);

std::string line_of(const Finding& finding, bool colour);  // with its remedy on a second line
std::string summary_of(const Report& report);              // the last line
std::string to_text(const Report& report);
std::string to_json(const Report& report);  // one object, indented
std::string to_junit(const Report& report);

}  // namespace tranche::doctor
