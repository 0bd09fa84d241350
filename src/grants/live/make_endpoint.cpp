#include "grants/live/make_endpoint.h"

#include "mps/protocol/mps_link.h"
#include "os/socket/status_socket.h"

namespace tranche::agent {
namespace {

constexpr Duration kOpenDeadline = std::chrono::seconds(1);

}  // namespace

EndpointLimits endpoint_limits(const allocate::Grant& grant) {
  EndpointLimits limits;
  for (const auto& device : grant.devices)
    limits.push_back({device.uuid, device.limits.memory.in_mib(), device.limits.threads.hundredths});
  return limits;
}

Status make_endpoint(const allocate::Paths& paths, const allocate::Grant& grant) {
  const auto ask = [&](bool new_tenant) -> Result<std::string> {
    const auto request = open_endpoint_request(grant.pool, grant.id, endpoint_limits(grant), new_tenant);
    TRY(const auto answered, host::ask(paths.mps_root + "/mps.sock", request, kOpenDeadline));
    return read_mps_reply(answered);
  };
  auto opened = ask(true);
  if (!opened && lacks_new_tenant(opened.error())) opened = ask(false);
  if (!opened)
    return std::unexpected(
        within(opened.error(), "cannot open the grant's MPS endpoint; try again when the pool serves"));
  return {};
}

}  // namespace tranche::agent
