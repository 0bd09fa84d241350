#include "plan/shares.h"

#include <algorithm>
#include <optional>

namespace tranche::plan {
namespace {

constexpr Percent kAll = Percent::whole(100);

// The smallest percentage that yields at least `sms`; SMs are assigned in pairs.
Percent least_for(std::uint32_t sms, std::uint32_t sm_count) {
  const std::uint64_t pairs = (std::uint64_t{sms} + 1) / 2;
  const auto least = static_cast<std::uint32_t>((pairs * 20000 + sm_count - 1) / sm_count);
  return {std::clamp<std::uint32_t>(least, 1, kAll.hundredths)};
}

// A whole percentage if it yields the same: at the edge of a fraction, the count depends on the driver's rounding.
Percent whole_if_same(Percent exact, Percent whole, std::uint32_t sm_count) {
  return whole.hundredths > 0 && sms_at(whole, sm_count) == sms_at(exact, sm_count) ? whole : exact;
}

// The nearest trusted count above, or below, that of `threads`, as a percentage.
std::optional<Percent> trusted_beside(Percent threads, std::uint32_t sm_count, std::span<const SmSpan> trusted,
                                      bool above) {
  const std::uint32_t most = sms_at(kAll, sm_count);
  for (std::uint32_t sms = sms_at(threads, sm_count); above ? sms < most : sms > kFewestSms + 1;) {
    sms = above ? std::min(sms + 2, most) : (sms - 1) / 2 * 2;
    if (!is_trusted(sms, trusted)) continue;
    if (above) return threads_for(sms, sm_count);
    const Percent exact{least_for(sms + 1, sm_count).hundredths - 1};  // the largest that does not yield another pair
    return whole_if_same(exact, Percent::whole(exact.hundredths / 100), sm_count);
  }
  return std::nullopt;
}

Percent threads_of(const PlannedDevice& device, std::uint32_t held) {
  using Kind = config::ThreadsPolicy::Kind;
  const config::ThreadsPolicy& policy = device.policy.threads;
  if (policy.kind == Kind::kOpen) return kAll;
  if (policy.kind != Kind::kSms || device.sm_count == 0)  // no percentage is known to yield that many of unknown ones
    return threads_share(held, device.slots, policy.factor_hundredths);
  const std::uint64_t sms = std::uint64_t{policy.sms} * held;
  return threads_for(static_cast<std::uint32_t>(std::min<std::uint64_t>(sms, device.sm_count)), device.sm_count);
}

Bytes memory_of(const PlannedDevice& device, std::uint32_t held) {
  using Kind = config::MemoryPolicy::Kind;
  const config::MemoryPolicy& policy = device.policy.memory;
  const Bytes whole = mib(device.memory.in_mib());
  if (policy.kind == Kind::kOpen) return whole;
  const Bytes asked = policy.kind == Kind::kSize ? mib(policy.size.in_mib() * held)
                                                 : memory_share(divisible(device.memory, device.policy.reserve), held,
                                                                device.slots, policy.factor_hundredths);
  return device.memory.value == 0 ? asked : std::min(asked, whole);
}

}  // namespace

Bytes memory_share(Bytes total, std::uint32_t held, std::uint32_t slots, std::uint32_t factor_hundredths) {
  if (total.value == 0 || slots == 0 || held == 0) return {};
  const std::uint64_t all = total.in_mib();  // of a GPU, so that products stay far below 64 bits
  const std::uint64_t share = all * std::min(held, slots) * factor_hundredths / (std::uint64_t{100} * slots);
  return mib(std::clamp<std::uint64_t>(share, 1, std::max<std::uint64_t>(all, 1)));  // 0 would mean "not limited"
}

Percent threads_share(std::uint32_t held, std::uint32_t slots, std::uint32_t factor_hundredths) {
  if (slots == 0 || held == 0) return {};
  const std::uint64_t hundredths = std::uint64_t{100} * std::min(held, slots) * factor_hundredths / slots;
  if (slots > kWholePercentSlots) return {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(hundredths, 1, 10000))};
  return Percent::whole(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(hundredths / 100, 1, 100)));
}

Percent threads_for(std::uint32_t sms, std::uint32_t sm_count) {
  if (sm_count == 0 || sms >= sm_count) return kAll;
  const Percent exact = least_for(sms, sm_count);
  return whole_if_same(exact, Percent::whole((exact.hundredths + 99) / 100), sm_count);
}

Bytes reserve_of(const config::Reserve& reserve, bool is_mig) {
  switch (reserve.kind) {
    case config::Reserve::Kind::kNone:
      return {};
    case config::Reserve::Kind::kAuto:
      return is_mig ? kServerReserve : kDriverReserve + kServerReserve;
    case config::Reserve::Kind::kSize:
      return reserve.size;
  }
  return {};
}

Bytes divisible(Bytes memory, Bytes reserve) {
  if (memory.value == 0) return {};
  return memory > reserve ? memory - reserve : mib(1);
}

std::uint32_t slots_of(Bytes slot, Bytes memory, Bytes reserve) {
  if (slot.in_mib() == 0 || memory <= reserve) return 0;
  constexpr std::uint64_t kBound = 1'000'000;
  return static_cast<std::uint32_t>(std::min((memory - reserve).in_mib() / slot.in_mib(), kBound));
}

std::uint32_t sms_at(Percent threads, std::uint32_t sm_count) {
  if (threads.hundredths == 0 || sm_count == 0) return 0;
  const std::uint64_t pairs = std::uint64_t{std::min(threads, kAll).hundredths} * sm_count / 20000;
  return std::min(std::max(kFewestSms, static_cast<std::uint32_t>(2 * pairs)), sm_count);
}

std::span<const SmSpan> trusted_sm_counts(gpu::ComputeCapability capability, std::uint32_t sm_count) {
  static constexpr SmSpan kHopperOf132[] = {{8, 16}, {30, 34}, {62, 66}, {118, 132}};
  if (capability == gpu::ComputeCapability{9, 0} && sm_count == 132) return kHopperOf132;
  return {};
}

bool is_trusted(std::uint32_t sms, std::span<const SmSpan> trusted) {
  return trusted.empty() ||
         std::ranges::any_of(trusted, [sms](const SmSpan& span) { return span.from <= sms && sms <= span.to; });
}

Percent round_to_trusted(Percent threads, std::uint32_t sm_count, std::span<const SmSpan> trusted,
                         config::SmRounding rounding) {
  if (rounding == config::SmRounding::kOff || sm_count == 0 || is_trusted(sms_at(threads, sm_count), trusted))
    return threads;
  if (rounding == config::SmRounding::kDown)
    if (const auto below = trusted_beside(threads, sm_count, trusted, false)) return *below;
  return trusted_beside(threads, sm_count, trusted, true).value_or(threads);
}

std::vector<std::uint32_t> request_sizes(std::uint32_t slots) {
  std::vector<std::uint32_t> sizes;
  for (std::uint64_t unit = 1; unit < slots; unit *= 10)
    for (const std::uint64_t size : {unit, 2 * unit, 5 * unit})
      if (size < slots) sizes.push_back(static_cast<std::uint32_t>(size));
  if (slots > 0) sizes.push_back(slots);
  return sizes;
}

ShareLimits share_of(const PlannedDevice& device, std::uint32_t held) {
  held = std::min(held, device.slots);
  if (held == 0) return {};
  const auto trusted = trusted_sm_counts(device.compute_capability, device.sm_count);
  const Percent threads = round_to_trusted(threads_of(device, held), device.sm_count, trusted, device.policy.rounding);
  return {memory_of(device, held), threads, sms_at(threads, device.sm_count)};
}

}  // namespace tranche::plan
