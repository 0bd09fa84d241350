#include "doctor/verify/report.h"

#include <algorithm>

namespace tranche::verify {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kSkip:
      break;
  }
  return "SKIP";
}

Check pass(std::string id, std::string about, std::string what) {
  return {Verdict::kPass, std::move(id), std::move(about), std::move(what), {}};
}

Check failed(std::string id, std::string about, std::string what, std::string remedy) {
  return {Verdict::kFail, std::move(id), std::move(about), std::move(what), std::move(remedy)};
}

Check skipped(std::string id, std::string about, std::string why, std::string remedy) {
  return {Verdict::kSkip, std::move(id), std::move(about), std::move(why), std::move(remedy)};
}

int exit_status(const Checks& checks) {
  const auto has = [&checks](Verdict verdict) {
    return std::ranges::any_of(checks, [&](const Check& c) { return c.verdict == verdict; });
  };
  if (has(Verdict::kFail)) return 1;
  return has(Verdict::kPass) ? 0 : 2;
}

}  // namespace tranche::verify
