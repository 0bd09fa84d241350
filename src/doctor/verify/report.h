#pragma once
// What `tranche verify` found: checks that passed, failed, or could not be made, each with a reason, and what to do
// about it where it did not pass. Pure values.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::verify {

enum class Verdict { kPass, kFail, kSkip };
std::string_view to_string(Verdict verdict);  // "PASS", "FAIL", "SKIP"

struct Check {
  Verdict verdict = Verdict::kSkip;
  std::string id;      // stable: "node.resources", "deep.memory.beyond"
  std::string about;   // which one: a resource, a pool, a GPU's UUID; "" where there is only one
  std::string what;    // one sentence: what was found, with figures
  std::string remedy;  // what to do; "" when it passed
  friend bool operator==(const Check&, const Check&) = default;
};
using Checks = std::vector<Check>;

Check pass(std::string id, std::string about, std::string what);
Check failed(std::string id, std::string about, std::string what, std::string remedy);
Check skipped(std::string id, std::string about, std::string why, std::string remedy = {});

struct Report {
  std::string subject;  // "node n1", "this node"
  Checks checks;
};

// 0: nothing failed and something passed; 1: something failed; 2: nothing could be checked.
int exit_status(const Checks& checks);

}  // namespace tranche::verify
