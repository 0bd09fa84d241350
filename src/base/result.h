#pragma once
// Expected failures are return values. `Result<T>` is a T or an Error with what went wrong, where, and its Kind. A Kind
// exists only if it changes what the caller does; texts are for people. Nothing of ours throws: code that calls a
// throwing library converts the exception at that call. Thread-safe: plain values.
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/enum_names.h"

namespace tranche {

enum class Kind {
  kInvalid,      // wrong input: report it to its author, keep the last good state
  kNotFound,     // the requested object does not exist
  kUnsupported,  // this driver, kernel or device lacks the feature: do without it and report it once
  kUnavailable,  // not now: retry with back-off
  kTimeout,      // no answer before the deadline: retry with back-off
  kDenied,       // missing permission: continue degraded, and report it
  kConflict,     // another process holds it, or it changed meanwhile
};

struct Error {
  Kind kind = Kind::kUnavailable;
  std::string what;   // "pipe directory is not writable", outermost layer first
  std::string where;  // the subject of the failure: a path, "config.yaml:14:7", "nvmlDeviceGetUUID"
  int code = 0;       // errno, nvmlReturn_t or gRPC code: kept for the record, not interpreted twice

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(Kind kind, std::string what, std::string where = {}, int code = 0) {
  return std::unexpected(Error{kind, std::move(what), std::move(where), code});
}

// Converts an errno to an Error of the matching kind. `doing` is a phrase such as "cannot open".
Error error_from_errno(int err, std::string_view doing, std::string_view where);
// The same as a failure. Without `err`, of the system call that has just failed.
std::unexpected<Error> fail_errno(std::string_view doing, std::string_view where, int err = 0);

// Adds one layer of context in front: within(e, "advertise gpu.shared").
Error within(Error error, std::string_view layer);

// "what: where (code)"; one line, for logs and messages.
std::string to_string(const Error& error);
ENUM_NAMES(Kind::kConflict, "invalid", "not found", "unsupported", "unavailable", "timeout", "denied", "conflict")

// TRY(auto x, f()) declares x from f()'s value or returns its error from the enclosing function.
#define TRANCHE_CONCAT2(a, b) a##b
#define TRANCHE_CONCAT(a, b) TRANCHE_CONCAT2(a, b)
#define TRY_IMPL(tmp, decl, ...)                            \
  auto tmp = (__VA_ARGS__);                                 \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  decl = *std::move(tmp)
#define TRY(decl, ...) TRY_IMPL(TRANCHE_CONCAT(try_result_, __LINE__), decl, __VA_ARGS__)
#define TRY_STATUS(...) \
  if (auto try_status = (__VA_ARGS__); !try_status) return std::unexpected(std::move(try_status).error())

// For impossible conditions, never for outside input: prints and aborts; the restart is the recovery.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* message);
#define CHECK_THAT(condition, message) \
  (static_cast<bool>(condition) ? void(0) : ::tranche::check_failed(#condition, __FILE__, __LINE__, message))

}  // namespace tranche
