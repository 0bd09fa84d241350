#include "mps/pool/namespaces.h"

#include <algorithm>

#include "plan/shares.h"

namespace tranche::mps {

Percent whole_percent(Percent threads, std::uint32_t sm_count) {
  const Percent down = v3::whole_percent(threads);
  const auto sms = plan::sms_at(threads, sm_count);
  if (sm_count == 0 || plan::sms_at(down, sm_count) == sms) return down;
  const Percent alike = plan::threads_for(sms, sm_count);
  return alike.hundredths % 100 == 0 ? alike : down;
}

const v3::WantedNamespace* find(const std::vector<v3::WantedNamespace>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &v3::WantedNamespace::name);
  return found == all.end() ? nullptr : &*found;
}

Result<v3::WantedNamespace> namespace_for(const std::string& grant, const GrantLimits& limits, const std::string& uuid,
                                          std::uint32_t sm_count) {
  TRY(auto name, v3::encoded_name(grant));
  const std::vector<std::string> devices{uuid};
  TRY(const auto granted, limits_for(limits, devices));
  return v3::WantedNamespace{std::move(name),
                             {granted.memory.front().second, whole_percent(granted.threads, sm_count)}};
}

}  // namespace tranche::mps
