// Variables with the limits of a container's share, and variables that keep frameworks within it
// (docs/guide/frameworks.md). Under MPS a process sees the memory of the whole GPU as the total, so a framework that
// allocates a fraction of the total allocates more than the share.
//
// They are defaults for honest programs: no limit depends on them, and a container's own variables come before them.
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <optional>
#include <string>

#include "grants/allocate/mps_answer.h"

namespace tranche::grants {
namespace {

constexpr std::uint64_t kTenThousandths = 10'000;
constexpr Bytes kContext = mib(512);  // what a CUDA context takes of the share, at the most (docs/guide/share-sizes.md)

// A part of a whole in ten-thousandths, rounded down: a fraction must never ask for more than the share.
struct Fraction {
  std::uint64_t ten_thousandths = 0;
  friend auto operator<=>(Fraction, Fraction) = default;
};

std::string to_string(Fraction fraction) {
  return fmt::format("{}.{:04}", fraction.ten_thousandths / kTenThousandths,
                     fraction.ten_thousandths % kTenThousandths);
}

Fraction fraction_of(Bytes part, Bytes whole, std::uint64_t tenths = 10) {
  const std::uint64_t whole_mib = (whole + Bytes{mib(1).value - 1}).in_mib();  // up, as the part is rounded down
  return {std::min(part.in_mib() * tenths * (kTenThousandths / 10) / whole_mib, kTenThousandths)};
}

// The device on which the share is the smallest part of the memory. Nothing where the driver does not report how much
// memory a device has, for then no fraction of it is known.
struct Smallest {
  Bytes memory;  // the fewest of any device
  Fraction share;
  std::optional<Fraction> jax;  // nothing where every device is held whole, and JAX's own default is right
};

std::optional<Smallest> smallest_memory(const Grant& grant, const std::vector<DeviceSlots>& held) {
  std::optional<Smallest> smallest;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const Bytes whole = held[i].device->memory;
    const Bytes share = std::min(grant.devices[i].limits.memory, whole);
    if (share.in_mib() == 0) return std::nullopt;
    if (!smallest) smallest = Smallest{share, fraction_of(share, whole), std::nullopt};
    smallest->memory = std::min(smallest->memory, share);
    smallest->share = std::min(smallest->share, fraction_of(share, whole));
    if (share.in_mib() == whole.in_mib()) continue;
    // The context is charged to the share; where few SMs make it small, half of a small share is left. Of the rest a
    // tenth is for what is outside of XLA's pool: work spaces of cuBLAS and cuDNN, and the images of kernels.
    const Bytes left = share < kContext + kContext ? Bytes{share.value / 2} : share - kContext;
    const Fraction jax = fraction_of(left, whole, 9);
    smallest->jax = smallest->jax ? std::min(*smallest->jax, jax) : jax;
  }
  return smallest;
}

}  // namespace

void put_framework_environment(Grant& grant, const std::vector<DeviceSlots>& held, const Around& around) {
  grant.envs["TF_FORCE_GPU_ALLOW_GROWTH"] = "true";
  if (around.pool_is_joined) return;
  if (const auto memory = smallest_memory(grant, held)) {
    grant.envs["TRANCHE_MEMORY_MIB"] = std::to_string(memory->memory.in_mib());
    grant.envs["TRANCHE_MEMORY_FRACTION"] = to_string(memory->share);
    if (memory->jax && memory->jax->ten_thousandths > 0)
      grant.envs["XLA_PYTHON_CLIENT_MEM_FRACTION"] = to_string(*memory->jax);
  }
  const auto sms = std::ranges::min(grant.devices, {}, [](const GrantLimit& d) { return d.limits.sms; }).limits.sms;
  if (sms > 0) grant.envs["TRANCHE_SMS"] = std::to_string(sms);
}

}  // namespace tranche::grants
