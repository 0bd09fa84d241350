#pragma once
// Inside config/ only: the parts of parse(), one function per section of the file.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/document/fields.h"
#include "config/keys.h"
#include "config/model.h"

namespace tranche::config {

// A resource's full name; absent, with a Problem, if it is not valid.
std::optional<std::string> read_resource_name(const Value& value);
// "0", "0:1", a UUID, or the number of an index; absent for anything else, without a report.
std::optional<DeviceRef> device_reference(const Value& item);

// A fork's `individualGPU`: a resource per GPU, written beside `sharing`.
struct IndividualGpu {
  SharedResource entry;                  // without what it has of sharing.mps
  std::optional<MemoryPolicy> memory{};  // absent: that of sharing.mps
};
struct Individual {
  bool enabled = false;
  std::string pattern = "nvidia.com/gpu%d";
  std::vector<IndividualGpu> gpus;  // those that MPS serves
};
Individual parse_individual(const Value& section);
// Adds it to the configuration as entries of this format.
void apply_individual(const Individual& individual, const Value& fail_requests, std::optional<SplitPolicy> asked_split,
                      Sharing& sharing);

void parse_sharing(const Value& section, const Individual& individual, Sharing& sharing);

// An absent value leaves `into` unchanged; an invalid one is reported and leaves it unchanged too.
void read_value(const Value& list, std::vector<DeviceRef>& into);       // patterns of GPUs
void read_value(const Value& devices, Dra& into);                       // dra.devices: none, all, or a list of them
void read_value(const Value& value, ThreadsPolicy& into);               // equal, open, tenant, {factor: 2}, {sms: 16}
void read_value(const Value& value, MemoryPolicy& into);                // equal, open, tenant, {factor: 2}, 4Gi
void read_value(const Value& value, Reserve& into);                     // none, auto, 600Mi
void read_split(const Value& value, std::optional<SplitPolicy>& into);  // reject, span
std::optional<Bytes> read_memory_size(const Value& value, const std::string& remedy);

}  // namespace tranche::config
