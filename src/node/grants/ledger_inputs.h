#pragma once
// What the ledger of grants (grants/ledger.h) goes by, from the agent's values. Pure.
#include <optional>
#include <vector>

#include "grants/ledger.h"
#include "mps/protocol/pool_reports.h"
#include "node/grants/holders.h"

namespace tranche::agent {

std::vector<grants::Named> named_grants(const std::vector<Holder>& holders);
// Of all pools; absent while `tranche mps` does not answer.
std::optional<std::vector<grants::Endpoint>> endpoints_of(const PoolReports& pools);
grants::Endpoint endpoint_of(const std::string& pool, const EndpointReport& endpoint);

}  // namespace tranche::agent
