#pragma once
// Static SM partitions (`nvidia-cuda-mps-control -S`, interface version 2): how many chunks a slot gets, the commands,
// and what they answer. Written from NVIDIA's manual; not tried on hardware. Pure; fuzzed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "inventory/inventory.h"

namespace tranche::mps {

inline constexpr const char* kPartitionVariable = "CUDA_MPS_SM_PARTITION";  // of a client: "GPU-…/xxxxx"

struct ChunkPlan {
  std::uint32_t chunk_sms = 0;   // SMs of one chunk
  std::uint32_t chunks = 0;      // of the GPU
  std::uint32_t per_slot = 0;    // chunks of one slot; a grant of n slots is one partition of n times as many
  std::uint32_t unused_sms = 0;  // that no slot gets: left over by division, and what fills no chunk
  friend bool operator==(const ChunkPlan&, const ChunkPlan&) = default;
};
// 8 SMs a chunk from compute capability 9.0 on, 4 from 8.0. kUnsupported: an older GPU, an unknown number of SMs, or
// more slots than chunks; the sentence says how many slots it can be.
Result<ChunkPlan> plan_chunks(inventory::ComputeCapability capability, std::uint32_t sm_count, std::uint32_t slots);

namespace command {
std::string add_partition(std::string_view uuid, std::uint32_t chunks);
std::string remove_partition(std::string_view uuid, std::string_view partition);  // the part after the slash
std::string list_partitions();
}  // namespace command

struct PartitionId {
  std::string uuid;       // of the device
  std::string partition;  // opaque
  friend bool operator==(const PartitionId&, const PartitionId&) = default;
};
std::string to_string(const PartitionId& id);                   // as the client's variable takes it
Result<PartitionId> parse_partition_id(std::string_view text);  // "GPU-…/xxxxx": the device's whole UUID

// The reply to add_partition: the id, alone or after words.
Result<PartitionId> parse_added_partition(std::string_view text);

// One partition that a daemon should have. Two are equal when they are worth the same: the id is the daemon's to
// choose.
struct WantedPartition {
  std::string uuid;  // of the device
  std::uint32_t chunks = 0;
  std::uint32_t sms = 0;       // at least
  std::string partition = {};  // the one that it was when last looked at; "" = none yet
  friend bool operator==(const WantedPartition& a, const WantedPartition& b) {
    return a.uuid == b.uuid && a.chunks == b.chunks && a.sms == b.sms;
  }
};

struct PartitionRow {
  std::string uuid;                      // may be cut
  std::optional<std::string> partition;  // absent: what is free on the device
  std::uint32_t free_chunks = 0, used_chunks = 0, free_sms = 0, used_sms = 0;
  bool has_clients = false;
  friend bool operator==(const PartitionRow&, const PartitionRow&) = default;
};
Result<std::vector<PartitionRow>> parse_partitions(std::string_view text);  // of list_partitions
bool is_of(const PartitionRow& row, std::string_view uuid);  // a row may name its device by a beginning of the UUID

// Which row each wanted partition is, by place; absent: it is still to be made. First by its id, then by its size.
std::vector<std::optional<std::size_t>> matched(const std::vector<WantedPartition>& wanted,
                                                const std::vector<PartitionRow>& rows);

// What brings a daemon from these rows to those wanted: removals first, so that there is room. `made` counts the
// additions, each of which answers with an id.
struct PartitionChanges {
  std::vector<std::string> commands;
  std::size_t made = 0;
};
PartitionChanges partition_changes(const std::vector<WantedPartition>& wanted, const std::vector<PartitionRow>& rows);

// "" when every wanted partition is there and no other, else a sentence about the first difference.
std::string partitions_disagreement(const std::vector<WantedPartition>& wanted, const std::vector<PartitionRow>& rows);

}  // namespace tranche::mps
