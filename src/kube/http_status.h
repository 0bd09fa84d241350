#pragma once
// The HTTP status codes of the API server that programs distinguish (RFC 9110; Kubernetes API conventions). Pure.

namespace tranche::kube::http {

inline constexpr int kOk = 200;
inline constexpr int kCreated = 201;
inline constexpr int kBadRequest = 400;
inline constexpr int kUnauthorized = 401;
inline constexpr int kForbidden = 403;
inline constexpr int kNotFound = 404;
inline constexpr int kConflict = 409;
inline constexpr int kGone = 410;  // the listed or watched version has expired: list again

}  // namespace tranche::kube::http
