#include "mps/protocol/grant_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr const char* kWhere = "a grant's limits";
constexpr std::size_t kLongestUuid = 80;
constexpr std::uint64_t kMostMib = kNoMemoryLimit.in_mib();

std::unexpected<Error> wrong(std::string what) {
  return fail(Kind::kInvalid, std::move(what), kWhere);
}

Status check_one(const GrantLimit& limit) {
  if (!is_device_name(limit.uuid)) return wrong(in_quotes(limit.uuid) + " is not the UUID of a GPU or MIG device");
  if (limit.memory.value % mib(1).value != 0 || limit.memory.in_mib() > kMostMib)
    return wrong(fmt::format("the memory of {} must be 0 (not limited) or whole MiB up to {}", limit.uuid, kMostMib));
  if (limit.threads > Percent::whole(100))
    return wrong(fmt::format("the threads of {} must be 0 (not limited) to 10000 hundredths of a percent", limit.uuid));
  return {};
}

}  // namespace

bool is_device_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'Z') || c == '-' || c == '/';
  };
  return (name.starts_with("GPU-") || name.starts_with("MIG-")) && name.size() > 4 && name.size() <= kLongestUuid &&
         std::ranges::all_of(name, plain);
}

Status check_limits(const GrantLimits& limits) {
  if (limits.empty()) return wrong("there must be one device at least");
  if (limits.size() > kMostGrantDevices) return wrong(fmt::format("at most {} devices", kMostGrantDevices));
  for (const auto& limit : limits) {
    TRY_STATUS(check_one(limit));
    if (std::ranges::count(limits, limit.uuid, &GrantLimit::uuid) > 1)
      return wrong("the device " + limit.uuid + " is named twice");
  }
  return {};
}

}  // namespace tranche::mps
