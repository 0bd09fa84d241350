#pragma once
// The HTTP status codes that the API server's answers are told apart by (RFC 9110; Kubernetes API conventions). Pure.

namespace tranche::kube::http {

inline constexpr int kOk = 200;
inline constexpr int kCreated = 201;
inline constexpr int kBadRequest = 400;
inline constexpr int kUnauthorized = 401;
inline constexpr int kForbidden = 403;
inline constexpr int kNotFound = 404;
inline constexpr int kConflict = 409;
inline constexpr int kGone = 410;  // what was listed or watched from is no longer kept: list anew

}  // namespace tranche::kube::http
