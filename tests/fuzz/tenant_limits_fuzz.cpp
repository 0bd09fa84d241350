// Any text as the limits that a tenant writes for itself: a sentence each at most, and none of them long.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harmless.h"
#include "mps/limits/tenant_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  constexpr std::size_t kLongest = 2000;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto line = text.find('\n');
  const mps::TenantLimits own{text.substr(0, line), line == std::string::npos ? "" : text.substr(line + 1)};
  const mps::GrantedLimits granted{Percent::whole(25), {{"GPU-aaaaaaaa-0000-4000-8000-00000000000a", gib(8)}}};
  const auto remarks = mps::remarks_on(own, granted);
  if (remarks.size() > 2) std::abort();
  for (const auto& remark : remarks)
    if (remark.message.empty() || remark.message.size() > kLongest) std::abort();
  // Whatever has a client refused is also reported of a manifest, with a sentence that people can read.
  if (const auto why = mps::lifting(text, {granted.memory.front().first})) {
    if (why->empty() || why->size() > kLongest) std::abort();
    if (!fuzz::is_harmless(*why)) std::abort();
    if (mps::remarks_on({std::nullopt, text}, granted).empty()) std::abort();
  }
  return 0;
}
