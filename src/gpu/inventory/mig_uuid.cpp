#include "gpu/inventory/mig_uuid.h"

#include "base/text.h"

namespace tranche::inventory {
namespace {

constexpr std::string_view kPrefix = "MIG-";

std::optional<std::uint32_t> instance_of(std::string_view text) {
  const auto number = parse_unsigned(text);
  if (!number || *number >= kNoInstance) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

std::optional<LegacyMigUuid> parse_legacy_mig_uuid(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  const auto parts = split(text.substr(kPrefix.size()), '/');
  if (parts.size() != 3 || !parts[0].starts_with("GPU-") || parts[0].size() == 4) return std::nullopt;
  const auto gi = instance_of(parts[1]);
  const auto ci = instance_of(parts[2]);
  if (!gi || !ci) return std::nullopt;
  return LegacyMigUuid{std::string(parts[0]), *gi, *ci};
}

MigPlacement place_mig(std::string_view mig_uuid, std::string_view gpu_uuid, std::optional<std::uint32_t> gi,
                       std::optional<std::uint32_t> ci) {
  if (gi && ci) return {*gi, *ci};
  const auto named = parse_legacy_mig_uuid(mig_uuid);
  if (!named || named->gpu_uuid != gpu_uuid) return {};
  return {named->gpu_instance, named->compute_instance};
}

}  // namespace tranche::inventory
