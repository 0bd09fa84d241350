#pragma once
// Everything that a decision of the node agent starts from, as the driver, kubelet, `tranche mps`, the API server and
// the configuration reported it. Values; the loop's callbacks store them (node_inputs.cpp), and decide() reads them.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/shared_list.h"
#include "base/time.h"
#include "config/live/config_source.h"
#include "dra/live/claims_report.h"
#include "dra/partition.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"
#include "grants/allocate/grant.h"
#include "kubelet/plugin_host.h"
#include "kubelet/pod_resources.h"
#include "mig/live/mig_report.h"
#include "mps/protocol/pools.h"

namespace tranche::agent {

struct Inputs {
  ConfigView config;
  std::optional<inventory::Inventory> inventory;  // of the GPUs that the configuration uses; absent: no driver yet
  std::string driver_problem;                     // why not, or why it could not be read again
  std::vector<host::GpuUse> use;
  PoolReports pools;
  SharedList<host::PodHolding> holdings;
  std::string holdings_problem;
  MonoTime holdings_read{};            // when kubelet reported them
  allocate::Settings allocation;       // as the configuration and the files of the node have them
  std::vector<Problem> node_problems;  // of these files
  std::string node_block;              // why no device may be allocated; "" = they may
  std::string cdi_problem;             // of the CDI specs, while a list strategy uses CDI
  std::vector<host::PluginState> plugins;
  dra::Partitionable partitionable;              // of GPUs in MIG mode that are partitioned on demand
  std::optional<ClaimsReport> claims;            // absent: claims are neither served nor prepared
  std::optional<MigReport> mig;                  // absent: the MIG manager is not enabled
  std::map<std::string, std::string> withdrawn;  // devices that the MIG manager removes, with the reason
  std::string pages_problem;  // why the HTTP pages are not served; "" = they are, or none are requested

  // What has come since the last decision; the rest of a decision stays as it is.
  struct Fresh {
    bool plan = false;      // configuration, inventory or files of the node: the plan may change
    bool offer = false;     // anything that decides which slots kubelet may give; implied by `plan`
    bool holdings = false;  // a new list from kubelet
  } fresh;
};

}  // namespace tranche::agent
