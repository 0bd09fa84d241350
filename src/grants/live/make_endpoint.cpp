#include "grants/live/make_endpoint.h"

#include "mps/protocol/mps_client.h"

namespace tranche::agent {
namespace {

// A refused Allocate fails the pod for good, and a `tranche mps` that starves of CPU time answers late.
constexpr Duration kOpenDeadline = std::chrono::seconds(5);

}  // namespace

Status make_endpoint(const allocate::Paths& paths, const allocate::Grant& grant) {
  OpenEndpointRequest open{.endpoint = {grant.pool, grant.id}, .limits = mps::GrantLimits{}, .new_tenant = true};
  for (const auto& device : grant.devices)
    open.limits->push_back({device.uuid, device.limits.memory, device.limits.threads});
  const auto answered = host::ask(mps_socket(paths.mps_root), request_line(open), kOpenDeadline);
  const auto opened = answered ? read_reply(*answered) : std::unexpected(answered.error());
  if (!opened)
    return std::unexpected(
        within(opened.error(), "cannot open the grant's MPS endpoint; try again when the pool serves"));
  return {};
}

}  // namespace tranche::agent
