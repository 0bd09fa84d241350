#pragma once
// Inside config/ only: one entry of sharing.<section>.resources.
#include <optional>

#include "config/document/fields.h"
#include "config/model.h"

namespace tranche::config {

// What its section says to every entry.
struct EntryRules {
  SharingStrategy strategy = SharingStrategy::kNone;
  bool per_device = false;
  bool rename_by_default = false;
  ThreadsPolicy threads{};
  MemoryPolicy memory{};
  std::optional<SplitPolicy> split{};  // absent: span for names with %d, else reject
};

// Nothing when it cannot be used; the Problems say why.
std::optional<SharedResource> parse_entry(const Value& entry, const EntryRules& rules);

// A resource's name in full; nothing, and a Problem, for what is none.
std::optional<std::string> read_resource_name(const Value& value);
// "0", "0:1", a UUID, or the number of an index; nothing for anything else (nothing is reported).
std::optional<DeviceRef> device_reference(const Value& item);

}  // namespace tranche::config
