#pragma once
// What an API server says when it refuses: a Status object. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/time.h"

namespace tranche::kube {

struct ApiStatus {
  int code = 0;            // the HTTP status, 0 when it says none
  std::string reason;      // "Forbidden", "Expired"
  std::string message;     // for people
  Duration retry_after{};  // zero when it says none
  friend bool operator==(const ApiStatus&, const ApiStatus&) = default;
};

ApiStatus read_status(const nlohmann::json& object);
// Of a body that may be anything: what is no Status gives a short piece of the text as its message.
ApiStatus status_of_body(int http_status, std::string_view body);

}  // namespace tranche::kube
