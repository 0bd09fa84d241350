#pragma once
// Private to mps: the error for a daemon's reply that does not match a captured one. Pure.
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

namespace tranche::mps {

inline std::unexpected<Error> unreadable(std::string_view command, std::string_view text, std::string_view expected) {
  return fail(Kind::kInvalid, "the reply " + in_quotes(text) + " is not " + std::string(expected),
              std::string(command));
}

}  // namespace tranche::mps
