#pragma once
// Private to os/socket: what arrives on a connection → requests. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::host {

class RequestReader {
 public:
  static constexpr std::size_t kLongest = 8192;  // two hundred process ids and a reason

  void take(std::string_view bytes);
  // The next whole line, without blanks around it; empty lines are passed over. kInvalid for one that is too long, not
  // even complete, or that holds anything but printable ASCII; after that the connection is of no more use.
  std::optional<Result<std::string>> next();

 private:
  std::string waiting_;
};

}  // namespace tranche::host
