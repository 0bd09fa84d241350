#pragma once
// `tranche check` on a node: checks once everything that sharing the node's GPUs depends on. Changes nothing and needs
// no rights except to read; reports what it may not read. Looks up every path below a root, so that it can check
// fixture trees and mounted host roots. One thread; blocks.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "base/time.h"
#include "config/model.h"
#include "doctor/finding.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"
#include "kube/client/kube_client.h"

namespace tranche::doctor {

// For the checks of Dynamic Resource Allocation.
struct DraLook {
  config::Dra config;  // which GPUs, by which driver, and whether they are partitioned on demand
  std::string server;  // the API server's address
  // The API server's answer to GET; an Error: it cannot be asked, or gives none.
  std::function<Result<kube::KubeAnswer>(const std::string& path)> ask;
};

struct CheckOptions {
  std::string root = "/";         // prefix of every path below
  std::string driver_root = "/";  // for the driver's libraries; under `root` when that is not "/"
  std::string config_path;        // the configuration that was read, "" = none
  std::vector<Problem> config_problems;
  std::string mps_root = "/run/nvidia/mps";
  std::string kubelet_root = "/var/lib/kubelet";
  std::string mps_control = "nvidia-cuda-mps-control";  // a name to look up in `search_path`, or a path
  std::string search_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  std::string agent_status = {};  // the status document of the node agent; "" = no answer
  std::string mps_status = {};    // the same of `tranche mps`
  DraLook dra = {};
  Duration deadline = std::chrono::seconds(5);  // for each program that is run
};

// In the order in which an operator would fix them: driver, devices, MPS, kubelet, claims, runtime, system,
// configuration.
Findings run_checks(const CheckOptions& options);

// Its groups, each of which adds its findings, and what they share.

// The driver library and the GPUs behind it; the inventory is for the checks that follow (empty without a driver).
gpu::Inventory check_driver(const CheckOptions& options, Findings& findings);
void check_devices(const CheckOptions& options, const gpu::Inventory& node, Findings& findings);
void check_mps_programs(const CheckOptions& options, Findings& findings);
void check_mps_root(const CheckOptions& options, Findings& findings);
void check_other_daemons(const CheckOptions& options, Findings& findings);
void check_kubelet(const CheckOptions& options, Findings& findings);
void check_dra(const CheckOptions& options, Findings& findings);
void check_runtime(const CheckOptions& options, Findings& findings);
void check_containers(const CheckOptions& options, Findings& findings);  // runtime, SELinux, user ids
void check_system(const CheckOptions& options, Findings& findings);
void check_config(const CheckOptions& options, Findings& findings);

// `path` (absolute) under the options' root.
std::string under_root(const CheckOptions& options, const std::string& path);

// The path of a program in `search_path`; "" = it is not there.
std::string find_in_path(const CheckOptions& options, const std::string& name);

std::filesystem::file_status status_of(const std::string& real_path);  // follows links
bool is_socket(const CheckOptions& options, const std::string& path);  // under the options' root
bool is_folder(const CheckOptions& options, const std::string& path);

// First line of a small text file, trimmed; "" when it cannot be read.
std::string first_line(const std::string& real_path);

}  // namespace tranche::doctor
