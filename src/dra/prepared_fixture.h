#pragma once
// The file of prepared claims as a whole, for tests: the node keeps the line of each claim.
#include "dra/prepare.h"

namespace tranche::dra {

inline std::string render_prepared(const PreparedClaims& claims) {
  std::string text;
  for (const auto& [uid, claim] : claims) text += render_prepared(claim);
  return text;
}

}  // namespace tranche::dra
