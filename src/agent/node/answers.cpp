#include "agent/node/answers.h"

#include "agent/node/doors.h"
#include "allocate/prefer.h"

namespace tranche::agent {

NodeAnswers::NodeAnswers(const SnapshotBox& box, std::string mps_root,
                         std::function<void(const allocate::Grant&)> on_grant,
                         std::function<void(const std::string&, const Error&)> on_refusal)
    : box_(box), mps_root_(std::move(mps_root)), on_grant_(std::move(on_grant)), on_refusal_(std::move(on_refusal)) {}

Result<allocate::Grant> NodeAnswers::allocate(const std::string& resource, std::span<const std::string> ids) {
  const auto snapshot = box_.get();
  const auto decide = [&]() -> Result<allocate::Grant> {
    const auto* planned = plan::find_resource(snapshot->plan, resource);
    if (planned == nullptr) return fail(Kind::kNotFound, resource + " is not advertised by this node any more");
    TRY(auto grant, allocate::allocate(*planned, snapshot->faults, ids, snapshot->allocation));
    if (!grant.pool.empty()) TRY_STATUS(make_door({mps_root_}, grant.pool, grant.id));
    return grant;
  };
  auto grant = decide();
  if (grant) {
    on_grant_(*grant);
  } else {
    on_refusal_(resource, grant.error());
  }
  return grant;
}

Result<std::vector<std::string>> NodeAnswers::prefer(const std::string& resource,
                                                     std::span<const std::string> available,
                                                     std::span<const std::string> must_include, std::uint32_t size) {
  const auto snapshot = box_.get();
  const auto* planned = plan::find_resource(snapshot->plan, resource);
  if (planned == nullptr) return fail(Kind::kNotFound, resource + " is not advertised by this node any more");
  static const inventory::Inventory kNone;
  const auto& known = snapshot->inventory;
  return allocate::prefer(*planned, known.has_value() ? *known : kNone, available, must_include, size,
                          snapshot->config.config.flags.plugin.shared_devices_allocation_policy);
}

}  // namespace tranche::agent
