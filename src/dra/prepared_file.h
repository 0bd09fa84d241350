#pragma once
// The prepared claims as text for a file that outlives a restart: one line a claim, `<16 hexadecimal digits> <JSON>`,
// where the digits are a hash of the JSON. A line that was damaged is lost alone, and reported. Members of the JSON
// that are not known are passed over, so that an older release reads what a newer one wrote. Pure; fuzzed: parse ∘
// render is the identity.
#include <string>
#include <string_view>
#include <vector>

#include "dra/prepare.h"

namespace tranche::dra {

std::string render_prepared(const PreparedClaim& claim);  // its line

struct ReadPrepared {
  PreparedClaims claims;
  std::vector<std::string> lost;  // "line 3: the record is damaged", one for each line that was not used
};
ReadPrepared parse_prepared(std::string_view text);

}  // namespace tranche::dra
