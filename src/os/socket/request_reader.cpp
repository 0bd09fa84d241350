#include "os/socket/request_reader.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::host {

void RequestReader::take(std::string_view bytes) {
  waiting_.append(bytes);
}

std::optional<Result<std::string>> RequestReader::next() {
  for (;;) {
    const auto end = waiting_.find('\n');
    if (std::min(end, waiting_.size()) > kLongest) {
      return fail(Kind::kInvalid, "a request is one line of at most " + std::to_string(kLongest) + " bytes");
    }
    if (end == std::string::npos) return std::nullopt;
    const std::string request(trimmed(std::string_view(waiting_).substr(0, end)));
    waiting_.erase(0, end + 1);
    if (request.empty()) continue;
    if (!std::ranges::all_of(request, [](char c) { return c >= 0x20 && c < 0x7f; })) {
      return fail(Kind::kInvalid, "a request is printable ASCII, but this is " + in_quotes(request));
    }
    return request;
  }
}

}  // namespace tranche::host
