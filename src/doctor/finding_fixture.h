#pragma once
// For tests: one finding of a kind.
#include <gmock/gmock.h>

#include "doctor/finding.h"

namespace tranche::doctor {

inline auto is(Verdict verdict, const std::string& id) {
  return testing::AllOf(testing::Field(&Finding::verdict, verdict), testing::Field(&Finding::id, id));
}
inline auto says(Verdict verdict, const std::string& id, const std::string& text) {
  return testing::AllOf(is(verdict, id), testing::Field(&Finding::what, testing::HasSubstr(text)));
}

}  // namespace tranche::doctor
