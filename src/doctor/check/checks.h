#pragma once
// The single groups of checks, and the helpers that they share. Each appends its findings.
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/check/check.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"

namespace tranche::check {

// The driver library and the GPUs behind it; the inventory is for the checks that follow (empty without a driver).
inventory::Inventory check_driver(const CheckOptions& options, Findings& findings);
void check_devices(const CheckOptions& options, const inventory::Inventory& node, Findings& findings);
void check_mps_programs(const CheckOptions& options, Findings& findings);
void check_mps_root(const CheckOptions& options, Findings& findings);
void check_other_daemons(const CheckOptions& options, Findings& findings);
void check_kubelet(const CheckOptions& options, Findings& findings);
void check_dra(const CheckOptions& options, Findings& findings);
void check_runtime(const CheckOptions& options, Findings& findings);
void check_containers(const CheckOptions& options, Findings& findings);  // runtime, SELinux, user ids
void check_system(const CheckOptions& options, Findings& findings);
void check_config(const CheckOptions& options, Findings& findings);

host::NvmlSettings driver_settings(const CheckOptions& options);

// `path` (absolute) under the options' root.
std::string under_root(const CheckOptions& options, const std::string& path);

enum class PathKind { kAbsent, kDirectory, kSocket, kCharacterDevice, kFile, kOther, kUnreadable };
PathKind kind_of_path(const std::string& real_path);  // follows links

// Runs a program to its end, with a loop of its own, and returns what it printed. kTimeout when it has not ended by
// then (it is killed); kUnavailable when it ended with anything but status 0.
Result<std::string> run_program(const std::vector<std::string>& argv, Duration deadline);

// First line of a small text file, trimmed; "" when it cannot be read.
std::string first_line(const std::string& real_path);

}  // namespace tranche::check
