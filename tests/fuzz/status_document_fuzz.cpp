// Any bytes where a status document carries foreign text (a configuration's problems, the driver, kubelet, the API
// server): the document is made, and can be read again.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "config/parse/parse.h"
#include "node/reports.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace agent = tranche::agent;
  const std::string text(reinterpret_cast<const char*>(data), size);
  agent::Snapshot snapshot;
  snapshot.config.path = text;
  snapshot.config.label = text;
  snapshot.config.problems = tranche::config::parse(text, "fuzz").problems;
  snapshot.driver_problem = text;
  snapshot.cluster.reason = tranche::in_quotes(text);
  snapshot.holdings_problem = text;
  snapshot.pools.problem = text;
  snapshot.plan.left_out.push_back({text, text});
  tranche::host::PodHolding holding;
  holding.pod = text;
  holding.resource = text;
  holding.slots = {text};
  snapshot.holdings = {holding};
  for (const auto& document : {agent::status_document(snapshot, {}), agent::network_document(snapshot, {}, {})})
    if (nlohmann::json::parse(document.str(), nullptr, /*allow_exceptions=*/false).is_discarded()) std::abort();
  return 0;
}
