#pragma once
// The node doctor: everything on a node that sharing its GPUs rests on, looked at once, each finding with what to do.
// It changes nothing and needs no rights beyond reading; what it may not read it says. Every path is looked up under a
// root, so that fixture trees and mounted host roots can be checked. Blocking, for moment commands; one thread.
#include <map>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/time.h"
#include "config/model.h"
#include "doctor/finding.h"

namespace tranche::check {

// For the checks of Dynamic Resource Allocation: what the caller has asked, as it was answered.
struct DraLook {
  bool wanted = false;  // dra.devices of the configuration
  config::Dra config;   // which GPUs, and whether they are partitioned on demand
  std::string driver;
  std::string agent_status;   // the node agent's status document; "" = no answer
  std::string server;         // the API server's address
  std::string why_no_server;  // "" = it was asked
  struct Answer {
    int status = 0;
    std::string body;
  };
  Answer group;                          // /apis/resource.k8s.io/v1
  Answer classes;                        // the list of device classes
  std::map<std::string, Answer> claims;  // by UID: the ResourceClaim of each prepared claim
};

struct CheckOptions {
  std::string root = "/";         // prefix of every path below
  std::string driver_root = "/";  // for the driver's libraries; under `root` when that is not "/"
  std::string config_path;        // the configuration that was read, "" = none
  std::vector<Problem> config_problems;
  std::string mps_root = "/run/nvidia/mps";
  std::string kubelet_root = "/var/lib/kubelet";
  std::vector<std::string> own_sockets = {};  // of the node agent that runs, in kubelet's device-plugin folder
  std::string mps_control = "nvidia-cuda-mps-control";  // a name to look up in `search_path`, or a path
  std::string search_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  std::string mps_status = {};  // the status document of `tranche mps`; "" = no answer
  DraLook dra = {};
  Duration deadline = std::chrono::seconds(5);  // for each program that is run
};

// In the order in which an operator would fix them: driver, devices, MPS, kubelet, claims, runtime, system,
// configuration.
Findings run_checks(const CheckOptions& options);

}  // namespace tranche::check
