#include "agent/node/answers.h"

#include "agent/node/doors.h"
#include "allocate/prefer.h"

namespace tranche::agent {

NodeAnswers::NodeAnswers(const SnapshotBox& box, std::string mps_root, std::function<void()> on_answered)
    : box_(box), mps_root_(std::move(mps_root)), on_answered_(std::move(on_answered)) {}

Result<allocate::Grant> NodeAnswers::decide(const std::string& resource, std::span<const std::string> ids) const {
  const auto snapshot = box_.get();
  const auto* planned = plan::find_resource(snapshot->plan, resource);
  if (planned == nullptr) return fail(Kind::kNotFound, resource + " is not advertised by this node any more");
  TRY(auto grant, allocate::allocate(*planned, snapshot->faults, ids, snapshot->allocation));
  if (!grant.pool.empty()) TRY_STATUS(make_door({mps_root_}, grant.pool, grant.id));
  return grant;
}

Result<allocate::Grant> NodeAnswers::allocate(const std::string& resource, std::span<const std::string> ids) {
  auto grant = decide(resource, ids);
  {
    const std::lock_guard lock(mutex_);
    if (grant) {
      answered_.given.push_back(*grant);
    } else {
      answered_.refused.emplace_back(resource, grant.error());
    }
  }
  on_answered_();
  return grant;
}

Answered NodeAnswers::take_answered() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answered_, {});
}

Result<std::vector<std::string>> NodeAnswers::prefer(const std::string& resource,
                                                     std::span<const std::string_view> available,
                                                     std::span<const std::string_view> must_include,
                                                     std::uint32_t size) {
  const auto snapshot = box_.get();
  const auto* planned = plan::find_resource(snapshot->plan, resource);
  if (planned == nullptr) return fail(Kind::kNotFound, resource + " is not advertised by this node any more");
  static const inventory::Inventory kNone;
  const auto& known = snapshot->inventory;
  return allocate::prefer(*planned, known.has_value() ? *known : kNone, available, must_include, size,
                          snapshot->config.config.flags.plugin.shared_devices_allocation_policy);
}

}  // namespace tranche::agent
