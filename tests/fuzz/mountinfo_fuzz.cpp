// Any text as a process' mount table: an endpoint of the allowed shape below where the endpoints are, or none; and as
// our own, from which the place of the endpoints is read.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guard/attribution.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto check = [&](const tranche::guard::EndpointsAt& endpoints) {
    const auto endpoint = tranche::guard::endpoint_of_mountinfo(text, "/run/tranche/mps", endpoints);
    if (!endpoint) return;
    if (endpoint->grant.size() != 16 || endpoint->pool.empty() || endpoint->pool.find('/') != std::string::npos)
      std::abort();
  };
  check({"0:21", "/nvidia/mps"});
  if (const auto endpoints = tranche::guard::where_endpoints_are(text, "/run/nvidia/mps")) check(*endpoints);
  return 0;
}
