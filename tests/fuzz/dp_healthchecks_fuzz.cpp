// Any two values (separated by the first line end) are read without harm; what is understood is written as the same
// choice, every token that is not has its warning, and enabling always beats disabling.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpu/health/healthchecks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::health;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = text.find('\n');
  const std::string_view disable = text.substr(0, cut);
  const std::string_view enable = cut == std::string_view::npos ? "" : text.substr(cut + 1);
  std::vector<tranche::Problem> problems;
  const HealthChecks checks = parse_health_checks(disable, enable, problems);
  if (tranche::has_error(problems) || problems.size() > size + 2) std::abort();
  std::vector<tranche::Problem> none;
  if (parse_health_checks(to_string(checks.disabled), to_string(checks.enabled), none) != checks || !none.empty())
    std::abort();
  for (const std::uint64_t xid : checks.enabled.xids) {
    const XidClass cls = class_of(checks, xid);
    if (cls != XidClass::kDrain && cls != XidClass::kReset) std::abort();
  }
  for (const std::uint64_t xid : checks.disabled.xids) {
    const bool ignored = class_of(checks, xid) == XidClass::kIgnore;
    if (ignored == (checks.enabled.all || checks.enabled.xids.contains(xid))) std::abort();
  }
  return 0;
}
