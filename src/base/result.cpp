#include "base/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tranche {
namespace {

Kind kind_of_errno(int err) {
  switch (err) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
    case ENODEV:
      return Kind::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return Kind::kDenied;
    case ENOSYS:
    case EOPNOTSUPP:
      return Kind::kUnsupported;
    case ETIMEDOUT:
      return Kind::kTimeout;
    case EEXIST:
    case EADDRINUSE:
    case EBUSY:
    case ENOTEMPTY:
      return Kind::kConflict;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return Kind::kInvalid;
    default:
      return Kind::kUnavailable;
  }
}

}  // namespace

Error error_from_errno(int err, std::string_view doing, std::string_view where) {
  char buffer[256];
  // GNU strerror_r returns the text, which may not be in the buffer.
  const char* text = strerror_r(err, buffer, sizeof buffer);
  return Error{kind_of_errno(err), std::string(doing) + ": " + text, std::string(where), err};
}

std::unexpected<Error> fail_errno(std::string_view doing, std::string_view where, int err) {
  return std::unexpected(error_from_errno(err == 0 ? errno : err, doing, where));
}

Error within(Error error, std::string_view layer) {
  error.what = std::string(layer) + ": " + error.what;
  return error;
}

std::string to_string(const Error& error) {
  std::string text = error.what;
  if (!error.where.empty()) text += " [" + error.where + "]";
  return text;
}

void check_failed(const char* condition, const char* file, int line, const char* message) {
  std::fprintf(stderr, "%s:%d: impossible: %s (%s)\n", file, line, message, condition);
  std::abort();
}

}  // namespace tranche
