#include "grants/live/make_endpoint.h"

#include "mps/protocol/mps_client.h"

namespace tranche::agent {
namespace {

// A refused Allocate fails the pod for good, and a `tranche mps` that starves of CPU time answers late.
constexpr Duration kOpenDeadline = std::chrono::seconds(5);

}  // namespace

Status make_endpoint(const allocate::Paths& paths, const allocate::Grant& grant) {
  OpenEndpointRequest open{.endpoint = {grant.pool, grant.id}, .limits = mps::GrantLimits{}};
  for (const auto& device : grant.devices)
    open.limits->push_back({device.uuid, device.limits.memory, device.limits.threads});
  const auto ask = [&](bool new_tenant) -> Status {
    open.new_tenant = new_tenant;
    TRY(const auto answered, host::ask(mps_socket(paths.mps_root), request_line(open), kOpenDeadline));
    return read_reply(answered);
  };
  auto opened = ask(true);
  if (!opened && lacks_new_tenant(opened.error())) opened = ask(false);
  if (!opened)
    return std::unexpected(
        within(opened.error(), "cannot open the grant's MPS endpoint; try again when the pool serves"));
  return {};
}

}  // namespace tranche::agent
