#include "mps/partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "mps/unreadable.h"

namespace tranche::mps {
namespace {

constexpr inventory::ComputeCapability kAmpere{8, 0};
constexpr inventory::ComputeCapability kHopper{9, 0};
constexpr std::size_t kLongestPartition = 64;

bool is_device(std::string_view word) {
  return word.starts_with("GPU-") || word.starts_with("MIG-");
}

bool is_partition_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestPartition && text != "-" && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '+' || c == '=';
  });
}

// "-" stands for nothing.
std::optional<std::uint32_t> count_of(std::string_view word) {
  if (word == "-") return 0;
  const auto number = parse_unsigned(word);
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

Result<ChunkPlan> plan_chunks(inventory::ComputeCapability capability, std::uint32_t sm_count, std::uint32_t slots) {
  if (capability < kAmpere)
    return fail(Kind::kUnsupported,
                fmt::format("static SM partitions need compute capability 8.0, and this GPU has {}.{}",
                            capability.major, capability.minor));
  if (sm_count == 0 || slots == 0)
    return fail(Kind::kUnsupported, "static SM partitions need the number of SMs, which the driver does not say");
  ChunkPlan plan;
  plan.chunk_sms = capability >= kHopper ? 8 : 4;
  plan.chunks = sm_count / plan.chunk_sms;
  plan.per_slot = plan.chunks / slots;
  if (plan.per_slot == 0)
    return fail(Kind::kUnsupported,
                fmt::format("{} slots need as many chunks of {} SMs, and {} SMs make {}; write replicas: {} or less",
                            slots, plan.chunk_sms, sm_count, plan.chunks, plan.chunks));
  plan.unused_sms = sm_count - slots * plan.per_slot * plan.chunk_sms;
  return plan;
}

std::string command::add_partition(std::string_view uuid, std::uint32_t chunks) {
  return fmt::format("sm_partition add {} {}", uuid, chunks);
}
std::string command::remove_partition(std::string_view uuid, std::string_view partition) {
  return fmt::format("sm_partition rm {} {}", uuid, partition);
}
std::string command::list_partitions() {
  return "lspart";
}

std::string to_string(const PartitionId& id) {
  return id.uuid + "/" + id.partition;
}

Result<PartitionId> parse_partition_id(std::string_view text) {
  const auto slash = text.rfind('/');
  if (slash == std::string_view::npos || !is_device(text) || slash <= 4 || !is_partition_name(text.substr(slash + 1)))
    return unreadable("sm_partition add", text, "a partition such as GPU-…/xxxxx");
  return PartitionId{std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
}

Result<PartitionId> parse_added_partition(std::string_view text) {
  std::optional<PartitionId> found;
  for (const auto word : words_of(text)) {
    if (!is_device(word)) continue;
    TRY(auto id, parse_partition_id(word));
    if (found) return unreadable("sm_partition add", text, "one partition");
    found = std::move(id);
  }
  if (!found) return unreadable("sm_partition add", text, "a partition such as GPU-…/xxxxx");
  return *std::move(found);
}

Result<std::vector<PartitionRow>> parse_partitions(std::string_view text) {
  std::vector<PartitionRow> rows;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.empty()) continue;
    if (!is_device(words[0])) {
      // The heading, on one line or two; anything else there is a refusal.
      const bool heading = rows.empty() && (words[0] == "GPU" || words[0] == "chunk");
      if (!heading) return unreadable("lspart", line, "a row of GPU, Partition, chunks, SMs, clients");
      continue;
    }
    PartitionRow row;
    row.uuid = words[0];
    const bool whole = words.size() == 7;
    const auto free_chunks = whole ? count_of(words[2]) : std::nullopt;
    const auto used_chunks = whole ? count_of(words[3]) : std::nullopt;
    const auto free_sms = whole ? count_of(words[4]) : std::nullopt;
    const auto used_sms = whole ? count_of(words[5]) : std::nullopt;
    const bool named = whole && (words[1] == "-" || is_partition_name(words[1]));
    const bool clients = whole && (words[6] == "-" || words[6] == "Yes");
    if (!free_chunks || !used_chunks || !free_sms || !used_sms || !named || !clients)
      return unreadable("lspart", line, "a row of GPU, Partition, chunks, SMs, clients");
    if (words[1] != "-") row.partition = std::string(words[1]);
    row.free_chunks = *free_chunks;
    row.used_chunks = *used_chunks;
    row.free_sms = *free_sms;
    row.used_sms = *used_sms;
    row.has_clients = words[6] == "Yes";
    rows.push_back(std::move(row));
  }
  return rows;
}

bool is_of(const PartitionRow& row, std::string_view uuid) {
  return uuid.starts_with(row.uuid);
}

std::vector<std::optional<std::size_t>> matched(const std::vector<WantedPartition>& wanted,
                                                const std::vector<PartitionRow>& rows) {
  std::vector<std::optional<std::size_t>> found(wanted.size());
  std::vector<bool> taken(rows.size(), false);
  const auto take = [&](bool by_id) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      for (std::size_t at = 0; at < rows.size() && !found[i]; ++at) {
        const auto& row = rows[at];
        if (taken[at] || !row.partition || !is_of(row, wanted[i].uuid) || row.used_chunks != wanted[i].chunks) continue;
        if (by_id && *row.partition != wanted[i].partition) continue;
        found[i] = at;
        taken[at] = true;
      }
    }
  };
  take(true);
  take(false);
  return found;
}

PartitionChanges partition_changes(const std::vector<WantedPartition>& wanted, const std::vector<PartitionRow>& rows) {
  const auto found = matched(wanted, rows);
  PartitionChanges changes;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const auto& partition = rows[at].partition;
    if (!partition || std::ranges::find(found, std::optional(at)) != found.end()) continue;
    const auto device = std::ranges::find_if(wanted, [&](const auto& one) { return is_of(rows[at], one.uuid); });
    changes.commands.push_back(
        command::remove_partition(device == wanted.end() ? rows[at].uuid : device->uuid, *partition));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (found[i]) continue;
    changes.commands.push_back(command::add_partition(wanted[i].uuid, wanted[i].chunks));
    ++changes.made;
  }
  return changes;
}

std::string partitions_disagreement(const std::vector<WantedPartition>& wanted, const std::vector<PartitionRow>& rows) {
  const auto found = matched(wanted, rows);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto at = found[i];
    if (!at)
      return fmt::format("a partition of {} chunks on {} was made and is not listed", wanted[i].chunks, wanted[i].uuid);
    if (const auto& row = rows[*at]; row.used_sms < wanted[i].sms)
      return fmt::format("partition {} of {} has {} SMs, and its {} chunks should be {}", row.partition.value_or(""),
                         wanted[i].uuid, row.used_sms, wanted[i].chunks, wanted[i].sms);
  }
  for (std::size_t at = 0; at < rows.size() && !wanted.empty(); ++at) {
    const auto& partition = rows[at].partition;
    if (partition && std::ranges::find(found, std::optional(at)) == found.end())
      return fmt::format("partition {} of {} was removed and is listed still", *partition, rows[at].uuid);
  }
  return {};
}

}  // namespace tranche::mps
