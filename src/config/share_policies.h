#pragma once
// How the shares of an MPS resource are divided, an extension: in `sharing.mps` for all its resources, and per entry.
// plan/shares.h computes the resulting limits on a GPU. Plain values.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.h"
#include "config/enum_text.h"

namespace tranche::config {

// How many of a GPU's SMs the slots of a grant may use, of `slots` in all.
struct ThreadsPolicy {
  enum class Kind {
    kEqual,   // held / slots, NVIDIA's
    kFactor,  // that × factor: limits may add up to more than the GPU
    kOpen,    // all of them
    kTenant,  // like kEqual; the container's own variable applies below that, and is not overwritten
    kSms,     // an exact number per slot
  };
  Kind kind = Kind::kEqual;
  std::uint32_t factor_hundredths = 100;  // kFactor: 200 = twice
  std::uint32_t sms = 0;                  // kSms: of one slot
  friend bool operator==(const ThreadsPolicy&, const ThreadsPolicy&) = default;
};

// The same for its memory.
struct MemoryPolicy {
  enum class Kind { kEqual, kFactor, kOpen, kTenant, kSize };
  Kind kind = Kind::kEqual;
  std::uint32_t factor_hundredths = 100;
  Bytes size{};  // kSize: of one slot
  friend bool operator==(const MemoryPolicy&, const MemoryPolicy&) = default;
};

// Memory of a GPU to reserve for the driver and the MPS server before it is divided. NVIDIA's plugin reserves none.
struct Reserve {
  enum class Kind { kNone, kAuto, kSize };  // kAuto: the measured amount, plan/shares.h
  Kind kind = Kind::kNone;
  Bytes size{};
  friend bool operator==(const Reserve&, const Reserve&) = default;
};

// The action if kubelet allocates slots of several GPUs to one container.
enum class SplitPolicy {
  kReject,  // Allocate fails, with a sentence that names the GPUs
  kSpan,    // the GPUs of the resource are one pool, and the grant has a limit on each
};
template <>
inline constexpr auto kWords<ThreadsPolicy::Kind> = enum_words("equal", "factor", "open", "tenant", "sms");
template <>
inline constexpr auto kWords<MemoryPolicy::Kind> = enum_words("equal", "factor", "open", "tenant", "size");
template <>
inline constexpr auto kWords<Reserve::Kind> = enum_words("none", "auto", "size");
template <>
inline constexpr auto kWords<SplitPolicy> = enum_words("reject", "span");
std::string to_string(const ThreadsPolicy&);  // "equal", "factor 2", "open", "tenant", "sms 16": for people
std::string to_string(const MemoryPolicy&);   // "equal", "factor 1.5", "open", "tenant", "4Gi"
std::string to_string(const Reserve&);        // "none", "auto", "600Mi"

}  // namespace tranche::config
