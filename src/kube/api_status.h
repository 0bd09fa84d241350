#pragma once
// The Status object that an API server returns when it refuses a request. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/time.h"

namespace tranche::kube::http {

// The HTTP status codes of the API server that programs distinguish (RFC 9110; Kubernetes API conventions). Pure.
inline constexpr int kOk = 200;
inline constexpr int kCreated = 201;
inline constexpr int kBadRequest = 400;
inline constexpr int kUnauthorized = 401;
inline constexpr int kForbidden = 403;
inline constexpr int kNotFound = 404;
inline constexpr int kConflict = 409;
inline constexpr int kGone = 410;  // the listed or watched version has expired: list again

}  // namespace tranche::kube::http

namespace tranche::kube {

struct ApiStatus {
  int code = 0;            // the HTTP status, 0 if absent
  std::string message;     // for people
  Duration retry_after{};  // zero if absent
  friend bool operator==(const ApiStatus&, const ApiStatus&) = default;
};

ApiStatus read_status(const nlohmann::json& object);
// From any body: if it is not a Status, the message is a short piece of its text.
ApiStatus status_of_body(int http_status, std::string_view body);

}  // namespace tranche::kube
