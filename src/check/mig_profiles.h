#pragma once
// `tranche check --mig-profiles`: what the GPUs of this node can be cut into by MIG, with what each part would be worth
// and the resource that pods would ask for. It reads; making instances is left to nvidia-smi or a MIG manager.
// Blocking, for moment commands; one thread.
#include <cstdint>
#include <string>
#include <vector>

#include "check/check.h"
#include "host/nvml/nvml.h"

namespace tranche::check {

struct MigChoice {
  std::uint32_t index = 0;
  std::string uuid;
  std::string name;
  bool capable = false;
  bool enabled = false;
  std::vector<host::MigProfile> profiles;  // the smallest first
  std::string why;                         // why a GPU that can be cut has none
};

Result<std::vector<MigChoice>> mig_choices(const CheckOptions& options);  // by index; error: no driver

// GPUs that can be cut alike stand together.
std::string choices_text(const std::vector<MigChoice>& choices, bool colour);
std::string choices_json(const std::vector<MigChoice>& choices);

}  // namespace tranche::check
