#pragma once
// The groups of checks. Each receives what was found unchanged (status documents of docs/reference/status.md, objects
// of the API server, an inventory) and appends what it means. Documents are not trusted; fuzzed. Pure.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "doctor/finding.h"
#include "gpu/inventory/inventory.h"

namespace tranche::verify {

// What the node agent says of itself, and `tranche mps` where it could be asked (null = it could not).
void check_agent(const nlohmann::json& node_status, const nlohmann::json& mps_status, Findings& checks);

// Claims that the node agent has prepared; nothing where it serves none.
void check_claims(const nlohmann::json& node_status, Findings& checks);
// Their CDI specifications: `files` by name, those of the node's CDI directory.
void check_claim_specs(const nlohmann::json& node_status, const std::map<std::string, std::string>& files,
                       Findings& checks);
// In a container: whether the variables show the GPUs that its limits are of.
void check_environment(const std::map<std::string, std::string>& environment, const std::vector<std::string>& gpus,
                       Findings& checks);

// A Node object as the API server has it.
void check_node(const nlohmann::json& node, Findings& checks);
// A pod with our labels; `doubt`: why it is not believed to be ours, "" = it is.
void check_pod(const nlohmann::json& pod, const std::string& doubt, Findings& checks);

// The Node object against what its agent says: configuration, resources, labels.
void check_node_against_agent(const nlohmann::json& node, const nlohmann::json& node_status, Findings& checks);

// What the driver says now against what the node agent says.
void check_hardware(const inventory::Inventory& hardware, const nlohmann::json& node_status, Findings& checks);

}  // namespace tranche::verify
