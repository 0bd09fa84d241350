#pragma once
// Inside config/ only: parses one entry of sharing.<section>.resources.
#include <optional>

#include "config/document/fields.h"
#include "config/keys.h"
#include "config/model.h"

namespace tranche::config {

// Settings of the section that apply to every entry.
struct EntryRules {
  SharingStrategy strategy = SharingStrategy::kNone;
  bool per_device = false;
  bool rename_by_default = false;
  std::uint32_t most_slots = kMostSlots;  // that can be of use at once, where a container can hold only one
  ThreadsPolicy threads{};
  MemoryPolicy memory{};
  std::optional<SplitPolicy> split{};  // absent: span for names with %d, else reject
};

// Absent if the entry cannot be used; the Problems give the reasons.
std::optional<SharedResource> parse_entry(const Value& entry, const EntryRules& rules);

// A resource's full name; absent, with a Problem, if it is not valid.
std::optional<std::string> read_resource_name(const Value& value);
// "0", "0:1", a UUID, or the number of an index; absent for anything else, without a report.
std::optional<DeviceRef> device_reference(const Value& item);

}  // namespace tranche::config
