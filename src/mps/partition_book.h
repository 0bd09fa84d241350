#pragma once
// The book of a GPU's static SM partitions: which slots share one, what the daemon calls it, and what was promised to
// the containers that hold it. Slot n is the n of its id, so the same request means the same partition in every run,
// after every restart, and without knowing who asks. A slot is in exactly one partition; at first each has its own, and
// several become one only for a container that holds exactly those.
//
// Whether the daemon gives a partition the same name when it is made again is not documented. The book keeps what was
// promised, so that a container which holds a name that is no more can be told. Pure; fuzzed.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mps/partitions.h"

namespace tranche::mps {

using Slots = std::vector<std::uint32_t>;  // of one GPU, sorted

struct BookedPartition {
  Slots slots;
  std::string partition = {};  // the daemon's name for it (after the slash); "" = not made
  std::string promised = {};   // the name that containers have; "" = none
  friend bool operator==(const BookedPartition&, const BookedPartition&) = default;
};

struct PartitionBook {
  std::string uuid;
  std::uint32_t slots = 0;                       // of the GPU
  std::uint32_t per_slot = 0;                    // chunks
  std::uint32_t chunk_sms = 0;                   // SMs of one chunk
  std::vector<BookedPartition> partitions = {};  // by first slot
  friend bool operator==(const PartitionBook&, const PartitionBook&) = default;
};

PartitionBook cut(const std::string& uuid, const ChunkPlan& plan, std::uint32_t slots);  // each slot its own
bool is_cut_alike(const PartitionBook& a, const PartitionBook& b);  // whatever was joined and made since

BookedPartition* find_partition(PartitionBook& book, const Slots& slots);  // of exactly these; nullptr = none
// With one partition for these slots; those that held some of them are dissolved, their other slots get their own. One
// slot is the same as several. kNotFound: the GPU has no such slot.
Result<PartitionBook> regrouped(const PartitionBook& book, const Slots& slots);

std::vector<WantedPartition> wanted(const PartitionBook& book);
void settle(PartitionBook& book, const std::vector<PartitionRow>& rows);  // names, as the daemon lists them

// The names that containers hold and that are another partition's or none's by now: they must be started anew.
std::vector<std::string> broken_promises(const PartitionBook& book);

std::string render_book(const PartitionBook& book);  // JSON
Result<PartitionBook> parse_book(std::string_view json);

}  // namespace tranche::mps
