#include "mps/protocol/mps_link.h"

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::agent {

void MpsLink::request(std::string json, Done done, Duration deadline) {
  client_->request(std::move(json), deadline, [done = std::move(done)](const Result<std::string>& line) {
    done(line ? read_mps_reply(*line) : line);
  });
}

Result<std::string> read_mps_reply(const std::string& line) {
  const auto reply = json_of(line);
  if (truth_at(reply, "ok")) return line;
  if (const auto error = text_at(reply, "error"); !error.empty())
    return fail(Kind::kUnavailable, "tranche mps: " + error);
  return fail(Kind::kInvalid, "tranche mps answered with something that is not understood; do both run one release?");
}

std::string remove_endpoint_request(const std::string& pool, const std::string& grant, std::uint64_t made) {
  nlohmann::ordered_json request{{"do", "removeEndpoint"}, {"pool", pool}, {"grant", grant}};
  if (made != 0) request["made"] = made;
  return json_in_ascii(request);
}

bool lacks_new_tenant(const Error& refused) {
  return refused.what.find("no field \"newTenant\"") != std::string::npos;
}

std::string open_endpoint_request(const std::string& pool, const std::string& grant, const EndpointLimits& limits,
                                  bool new_tenant, bool any_pod, const std::string& pod) {
  nlohmann::ordered_json request{{"do", "openEndpoint"}, {"pool", pool}, {"grant", grant}};
  for (const auto& limit : limits)
    request["limits"].push_back(
        {{"uuid", limit.uuid}, {"memoryMiB", limit.memory_mib}, {"threadsHundredths", limit.threads_hundredths}});
  if (new_tenant) request["newTenant"] = true;
  if (any_pod) request["anyPod"] = true;
  if (!pod.empty()) request["pod"] = pod;
  return json_in_ascii(request);
}

}  // namespace tranche::agent
