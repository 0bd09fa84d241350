#pragma once
// What one GPU is to be cut into, and the next driver call on the way there. Every call is derived from what the driver
// shows at that moment, so a program that was killed between any two calls goes on where it was. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpu/driver/mig/mig_admin.h"

namespace tranche::host {

struct MigWanted {
  std::uint32_t profile_id = 0;
  std::string profile;  // its name, for messages
  MigPlace place;
  std::vector<std::uint32_t> compute;  // slices of each compute instance
  friend bool operator==(const MigWanted&, const MigWanted&) = default;
};
struct MigLayout {
  bool enabled = false;
  std::vector<MigWanted> instances;  // by placement
  friend bool operator==(const MigLayout&, const MigLayout&) = default;
};

MigLayout layout_of(const MigGpu& gpu);
std::string to_string(const MigLayout& layout);  // "MIG off", "3g.20gb at 0, 3g.20gb at 4"
nlohmann::json to_json(const MigLayout& layout);
std::optional<MigLayout> layout_from(const nlohmann::json& object);

struct MigStep {
  enum class What { kSetMode, kDestroyCompute, kDestroyInstance, kCreateInstance, kCreateCompute };
  What what = What::kSetMode;
  bool on = false;                     // kSetMode
  std::uint32_t gpu_instance = 0;      // of all but kSetMode and kCreateInstance
  std::uint32_t compute_instance = 0;  // kDestroyCompute
  std::uint32_t slices = 0;            // kCreateCompute
  std::uint32_t profile_id = 0;        // kCreateInstance
  MigPlace place{};                    // of all but kSetMode
  std::string profile{};               // the same
  friend bool operator==(const MigStep&, const MigStep&) = default;
};
std::string to_string(const MigStep& step);  // "create the GPU instance 3g.20gb at 4"
// Takes something away that a program may use.
bool destroys(const MigStep& step);

// Nothing: the GPU is as wanted. What goes comes first, then what is made, by placement.
std::optional<MigStep> next_step(const MigGpu& now, const MigLayout& wanted);

// The instances that lose something on the way: they go, or a compute instance of theirs does.
std::vector<MigGpuInstance> leaving(const MigGpu& now, const MigLayout& wanted);
// UUIDs of the MIG devices that stay.
std::vector<std::string> staying(const MigGpu& now, const MigLayout& wanted);

}  // namespace tranche::host
