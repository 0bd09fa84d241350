#pragma once
// The groups of checks. Each reads documents as they were received (status documents of docs/reference/status.md,
// objects of the API server, an inventory) and appends its findings. Does not trust documents; fuzzed. Pure.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "doctor/finding.h"
#include "gpu/inventory/inventory.h"

namespace tranche::doctor {

// The status of the node agent, and of `tranche mps` (null = it did not answer).
void check_agent(const nlohmann::json& node_status, const nlohmann::json& mps_status, Findings& checks);

// Claims that the node agent has prepared. Adds no finding if the agent does not serve claims.
void check_claims(const nlohmann::json& node_status, Findings& checks);
// The CDI specifications of the claims: `files` of the node's CDI directory by name.
void check_claim_specs(const nlohmann::json& node_status, const std::map<std::string, std::string>& files,
                       Findings& checks);
// In a container: whether its variables show the GPUs that its limits belong to.
void check_environment(const std::map<std::string, std::string>& environment, const std::vector<std::string>& gpus,
                       Findings& checks);

// A Node object of the API server.
void check_node(const nlohmann::json& node, Findings& checks);
// A pod with Tranche's labels; `doubt`: why the check does not trust the pod, "" = it does.
void check_pod(const nlohmann::json& pod, const std::string& doubt, Findings& checks);

// Compares the Node object with the agent's status: configuration, resources, labels.
void check_node_against_agent(const nlohmann::json& node, const nlohmann::json& node_status, Findings& checks);

// Compares the driver's GPUs with the agent's status.
void check_hardware(const gpu::Inventory& hardware, const nlohmann::json& node_status, Findings& checks);

}  // namespace tranche::doctor
