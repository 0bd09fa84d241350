#pragma once
// Inside config/ only: the parts of parse(), one function per section of the file.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/document/fields.h"
#include "config/guard.h"
#include "config/model.h"
#include "config/parse/parse_entry.h"

namespace tranche::config {

// A fork's `individualGPU`: a resource per GPU, written beside `sharing`.
struct IndividualGpu {
  DeviceRef gpu;
  std::optional<std::string> name{};  // full name; absent = by the pattern
  std::uint32_t replicas = 1;
  std::optional<MemoryPolicy> memory{};
  Place place;
};
struct Individual {
  bool enabled = false;
  std::string pattern = "nvidia.com/gpu%d";
  std::vector<IndividualGpu> gpus;  // those that MPS serves
};
Individual parse_individual(const Value& section);
// Adds it to the configuration as entries of this format.
void apply_individual(const Individual& individual, const Value& fail_requests, const EntryRules& rules,
                      Sharing& sharing);

void parse_sharing(const Value& section, const Individual& individual, Sharing& sharing);
void parse_device_filter(const Value& section, DeviceFilter& filter);
void read_gpu_patterns(const Value& list, std::vector<DeviceRef>& into);
// A duration from `least` to `most`; anything else is reported with `remedy`.
void read_duration(const Value& value, Duration& into, Duration least, Duration most, const char* remedy);
void parse_guard(const Value& section, Guard& guard);                // sharing.mps.guard
std::optional<GuardMemory> parse_entry_guard(const Value& section);  // sharing.mps.resources[].guard

}  // namespace tranche::config
