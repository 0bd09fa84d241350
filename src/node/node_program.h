#pragma once
// `tranche node`: the node agent. Reads configuration and inventory, plans, advertises to kubelet, answers Allocate,
// follows the pools of `tranche mps`, and reports on all of it. A restart does not disturb tenants: sockets are
// reopened, ids and endpoints do not change. docs/internals/one-pod.md follows one pod through it.
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "config/live/config_source.h"
#include "config/resolve.h"
#include "labels/live/label_output.h"
#include "mig/live/mig_options.h"

namespace tranche::node {

// Where the agent's files and kubelet's sockets are for this process.
struct NodePaths {
  std::string plugin_dir =
      "/var/lib/kubelet/device-plugins";  // the agent's sockets, and kubelet's unless --kubelet-socket is set
  std::string pod_resources_socket = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::string run_dir = "/run/tranche";
  std::string cdi_root = "/var/run/cdi";  // where CDI specs are written while a list strategy uses CDI
};

struct NodeOptions : config::Invocation, NodePaths {  // with the device plugin's flags
  bool run_dir_may_lack = false;  // containers of NVIDIA's manifests with a read-only root have no directory for it
  std::string mps_root_here;      // where flags.mpsRoot is for this process; "" = the same path
  std::string driver_root_here;  // where the driver's files are for this process; "" = flags.plugin.containerDriverRoot
  std::string system_root = "/";                           // where the node's /dev and /sys are for this process
  Duration health_quiet_period = std::chrono::minutes(5);  // without a fault, before a GPU accepts pods again
  std::string kubeconfig;     // of the API server; "" = the service account of this pod; no API server outside a pod
  std::string node_name;      // the cluster's name of this node
  std::string startup_taint;  // key of a taint to remove from this node once it is serving; "" = none
  config::ConfigPlaces
      config;  // other sources of the configuration; its node_name and write_down are set from this struct
  labels::LabelOutput label_output = labels::LabelOutput::kNone;  // where node labels are kept written
  std::string feature_namespace = "default";                      // of the NodeFeature object
  std::string
      pod_uid;  // of this pod: in the names of its DRA sockets, so that an older agent keeps its own; "" = fixed names
  std::string pod_name;  // of this pod, whose DaemonSet owns that object; "" = no owner
  mig::MigOptions mig;
  std::string listen;       // metrics and status page, "addr:port"; "" = none
  bool dcgm_names = false;  // also /metrics/dcgm
};

// Returns the exit status: 0 after SIGTERM, SIGINT or SIGQUIT, 2 for an unusable configuration, 1 otherwise.
int run_node(const NodeOptions& options);

}  // namespace tranche::node
