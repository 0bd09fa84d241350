#include "plan/shares.h"

#include <algorithm>
#include <optional>

#include "plan/sm_counts.h"

namespace tranche::plan {
namespace {

constexpr Percent kAll = Percent::whole(100);
constexpr std::uint32_t kFewestSms = 8;  // what the driver gives however small the percentage

// The first percentage from `from` towards `to` with a trusted count; whole ones first, because a count at the edge of
// a fraction depends on the driver's own rounding.
std::optional<Percent> search(Percent from, Percent to, std::uint32_t sm_count, const std::vector<SmSpan>& trusted) {
  const bool up = from <= to;
  for (const std::uint32_t step : {100u, 1u}) {
    std::uint32_t at = from.hundredths;
    if (step > 1) at = up ? (at + step - 1) / step * step : at / step * step;
    while (up ? at <= to.hundredths : at >= to.hundredths && at > 0) {
      if (is_trusted(sms_at({at}, sm_count), trusted)) return Percent{at};
      if (!up && at < step) break;
      at = up ? at + step : at - step;
    }
  }
  return std::nullopt;
}

}  // namespace

Bytes memory_share(Bytes total, std::uint32_t held, std::uint32_t slots) {
  if (total.value == 0 || slots == 0 || held == 0) return {};
  const std::uint64_t share = total.in_mib() * std::min(held, slots) / slots;
  return mib(std::max<std::uint64_t>(share, 1));  // 0 would mean "not limited"
}

Percent threads_share(std::uint32_t held, std::uint32_t slots) {
  if (slots == 0 || held == 0) return {};
  const std::uint64_t share = std::uint64_t{100} * std::min(held, slots) / slots;
  return Percent::whole(std::max<std::uint32_t>(static_cast<std::uint32_t>(share), 1));
}

std::uint32_t sms_at(Percent threads, std::uint32_t sm_count) {
  if (threads.hundredths == 0 || sm_count == 0) return 0;
  const std::uint64_t pairs = std::uint64_t{std::min(threads, kAll).hundredths} * sm_count / 20000;
  return std::min(std::max(kFewestSms, static_cast<std::uint32_t>(2 * pairs)), sm_count);
}

std::vector<SmSpan> trusted_sm_counts(inventory::ComputeCapability capability, std::uint32_t sm_count) {
  for (const SmCounts& row : kSmCounts)
    if (row.capability == capability && row.sm_count == sm_count) return {row.trusted.begin(), row.trusted.end()};
  return {};
}

bool is_trusted(std::uint32_t sms, const std::vector<SmSpan>& trusted) {
  return trusted.empty() ||
         std::ranges::any_of(trusted, [sms](const SmSpan& span) { return span.from <= sms && sms <= span.to; });
}

Percent round_to_trusted(Percent threads, std::uint32_t sm_count, const std::vector<SmSpan>& trusted,
                         config::SmRounding rounding) {
  if (rounding == config::SmRounding::kOff || sm_count == 0 || is_trusted(sms_at(threads, sm_count), trusted))
    return threads;
  if (rounding == config::SmRounding::kDown)
    if (const auto below = search(threads, Percent{1}, sm_count, trusted)) return *below;
  return search(threads, kAll, sm_count, trusted).value_or(threads);
}

ShareLimits share_of(Bytes memory, std::uint32_t sm_count, inventory::ComputeCapability capability, std::uint32_t held,
                     std::uint32_t slots, config::SmRounding rounding) {
  const Percent threads =
      round_to_trusted(threads_share(held, slots), sm_count, trusted_sm_counts(capability, sm_count), rounding);
  return {memory_share(memory, held, slots), threads, sms_at(threads, sm_count)};
}

}  // namespace tranche::plan
