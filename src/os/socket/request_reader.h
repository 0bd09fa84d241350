#pragma once
// Private to os/socket: splits the bytes of a connection into requests. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::os {

class RequestReader {
 public:
  static constexpr std::size_t kLongest = 8192;  // two hundred process ids and a reason

  void take(std::string_view bytes);
  // The next whole line, without surrounding blanks; empty lines are skipped. kInvalid for a line that is too long
  // (even if incomplete) or holds anything except printable ASCII; the connection is unusable after that.
  std::optional<Result<std::string>> next();

 private:
  std::string waiting_;
};

}  // namespace tranche::os
