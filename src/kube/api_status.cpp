#include "kube/api_status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/utf8.h"

namespace tranche::kube {
namespace {

constexpr std::int64_t kLongestRetrySeconds = 300;
constexpr std::size_t kLongestReason = 400;

}  // namespace

ApiStatus read_status(const nlohmann::json& object) {
  ApiStatus status;
  status.code = static_cast<int>(std::clamp<std::int64_t>(number_at(object, "code").value_or(0), 0, 999));
  status.message = cut_text(text_at(object, "message"), kLongestReason);
  const auto wait = number_at(member_at(object, "details"), "retryAfterSeconds").value_or(0);
  status.retry_after = std::chrono::seconds(std::clamp<std::int64_t>(wait, 0, kLongestRetrySeconds));
  return status;
}

ApiStatus status_of_body(int http_status, std::string_view body) {
  const auto document = json_of(body);
  ApiStatus status;
  if (text_at(document, "kind") == "Status") status = read_status(document);
  status.code = http_status;
  if (status.message.empty() && !trimmed(body).empty()) status.message = in_quotes(trimmed(body));
  return status;
}

}  // namespace tranche::kube
