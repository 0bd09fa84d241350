#pragma once
// Static SM partitions of one device (-S), as release 590 is described: whole chunks, taken one run after the other,
// and an id that says nothing to a reader. Written from NVIDIA's manual; what it does not say is chosen here and told
// in README-mps.md. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::sim {

struct SmPartition {
  std::string id;  // without the device
  std::uint32_t first = 0;
  std::uint32_t chunks = 0;
};

class PartitionedDevice {
 public:
  // `salt` makes other ids of the same runs: whether they are the same after a restart is not documented.
  PartitionedDevice(std::string uuid, std::uint32_t sm_count, int cc_major, std::uint64_t salt);

  // The first run of so many free chunks; nullopt: there is none (or an older GPU, which has no chunks).
  std::optional<SmPartition> add(std::uint32_t chunks);
  bool remove(std::string_view id);
  const SmPartition* find(std::string_view id) const;

  const std::string& uuid() const { return uuid_; }
  const std::vector<SmPartition>& partitions() const { return partitions_; }
  std::uint32_t sms(const SmPartition& partition) const { return partition.chunks * chunk_sms_; }
  std::uint32_t chunks() const { return chunks_; }
  std::uint32_t used_chunks() const;
  std::uint32_t sm_count() const { return sm_count_; }

 private:
  std::string uuid_;
  std::uint32_t sm_count_;
  std::uint32_t chunk_sms_;
  std::uint32_t chunks_;
  std::uint64_t salt_;
  std::vector<SmPartition> partitions_;  // by first chunk
};

// The table of lspart. `in_use`: "<uuid>/<id>" of partitions with clients.
std::string partition_table(const std::vector<PartitionedDevice>& devices, const std::vector<std::string>& in_use);

// The device that a UUID, or the beginning of exactly one, names; nullptr = none or several.
PartitionedDevice* device_named(std::vector<PartitionedDevice>& devices, std::string_view prefix);

}  // namespace tranche::sim
