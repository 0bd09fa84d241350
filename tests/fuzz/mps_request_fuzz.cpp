// Any line as a request on mps.sock: a request or an Error; no name that is accepted can leave its directory.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "containers/attribution.h"
#include "mps/protocol/replies.h"
#include "mps/protocol/requests.h"

using namespace tranche;

namespace {

void check(const agent::EndpointName& endpoint) {
  if (!agent::is_pool_name(endpoint.pool) || !containers::is_grant(endpoint.grant)) std::abort();
  if (endpoint.pool.find('/') != std::string::npos || endpoint.pool.find('.') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = agent::parse_mps_request({reinterpret_cast<const char*>(data), size});
  if (!request) {
    if (agent::error_reply(request.error()).find('\n') != std::string::npos) std::abort();
    return 0;
  }
  const auto line = agent::request_line(*request);
  const auto again = agent::parse_mps_request(line);
  if (!again || agent::request_line(*again) != line) std::abort();
  std::visit(
      [](const auto& r) {
        if constexpr (requires { r.endpoint; }) check(r.endpoint);
        if constexpr (requires { r.limits; }) {
          if (r.limits && !mps::check_limits(*r.limits)) std::abort();
        }
        if constexpr (requires { r.pids; }) {
          if (!agent::is_pool_name(r.pool) || r.pids.size() > agent::kMostPids) std::abort();
          for (const int pid : r.pids) {
            if (pid < 1) std::abort();
          }
        }
      },
      *request);
  return 0;
}
