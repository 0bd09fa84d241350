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
void read_value(const Value& list, std::vector<DeviceRef>& into);

}  // namespace tranche::config
