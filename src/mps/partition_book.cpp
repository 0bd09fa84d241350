#include "mps/partition_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::mps {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMostSlots = 4096;
constexpr std::uint32_t kMostChunks = 4096;

bool overlap(const Slots& a, const Slots& b) {
  return std::ranges::any_of(a, [&](std::uint32_t slot) { return std::ranges::find(b, slot) != b.end(); });
}

void sort_by_first_slot(PartitionBook& book) {
  std::ranges::sort(book.partitions, {}, [](const BookedPartition& one) { return one.slots.front(); });
}

std::unexpected<Error> bad_book(const std::string& what) {
  return fail(Kind::kInvalid, what, "partitions.json");
}

Result<std::uint32_t> number_at(const Json& object, const char* key, std::uint32_t most) {
  const auto it = object.find(key);
  const auto number = it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
  if (number < 1 || number > most) return bad_book(fmt::format("\"{}\" must be a number from 1 to {}", key, most));
  return static_cast<std::uint32_t>(number);
}

// A partition's name, or "".
Result<std::string> name_at(const Json& object, const char* key, const std::string& uuid) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string()) return bad_book(fmt::format("\"{}\" must be a text", key));
  const auto name = it->get<std::string>();
  if (!name.empty() && !parse_partition_id(uuid + "/" + name))
    return bad_book(fmt::format("\"{}\" must be the name of a partition, not {}", key, in_quotes(name)));
  return name;
}

Result<BookedPartition> read_partition(const Json& object, const PartitionBook& book, std::set<std::uint32_t>& seen) {
  if (!object.is_object()) return bad_book("a partition must be an object");
  const auto slots = object.find("slots");
  if (slots == object.end() || !slots->is_array() || slots->empty()) return bad_book("a partition needs \"slots\"");
  BookedPartition partition;
  for (const auto& one : *slots) {
    const auto number = one.is_number_integer() ? one.get<std::int64_t>() : -1;
    if (number < 0 || number >= book.slots || !seen.insert(static_cast<std::uint32_t>(number)).second)
      return bad_book("each slot of the GPU is in one partition, and " + in_quotes(json_text(one)) + " is not");
    partition.slots.push_back(static_cast<std::uint32_t>(number));
  }
  std::ranges::sort(partition.slots);
  TRY(partition.partition, name_at(object, "partition", book.uuid));
  TRY(partition.promised, name_at(object, "promised", book.uuid));
  return partition;
}

}  // namespace

PartitionBook cut(const std::string& uuid, const ChunkPlan& plan, std::uint32_t slots) {
  PartitionBook book{uuid, slots, plan.per_slot, plan.chunk_sms};
  for (std::uint32_t slot = 0; slot < slots; ++slot) book.partitions.push_back({{slot}});
  return book;
}

bool is_cut_alike(const PartitionBook& a, const PartitionBook& b) {
  return a.uuid == b.uuid && a.slots == b.slots && a.per_slot == b.per_slot && a.chunk_sms == b.chunk_sms;
}

BookedPartition* find_partition(PartitionBook& book, const Slots& slots) {
  const auto found = std::ranges::find(book.partitions, slots, &BookedPartition::slots);
  return found == book.partitions.end() ? nullptr : &*found;
}

Result<PartitionBook> regrouped(const PartitionBook& book, const Slots& slots) {
  for (const auto slot : slots) {
    if (slot >= book.slots)
      return fail(Kind::kNotFound,
                  fmt::format("the GPU is cut for {} slots, and slot {} is none of them; it is cut anew when no grant "
                              "of before is left",
                              book.slots, slot),
                  book.uuid);
  }
  if (slots.empty()) return fail(Kind::kInvalid, "a partition is made for at least one slot", book.uuid);
  PartitionBook next = book;
  next.partitions.clear();
  for (const auto& one : book.partitions) {
    if (!overlap(one.slots, slots)) {
      next.partitions.push_back(one);
      continue;
    }
    for (const auto slot : one.slots) {
      if (std::ranges::find(slots, slot) == slots.end()) next.partitions.push_back({{slot}});
    }
  }
  next.partitions.push_back({slots});
  sort_by_first_slot(next);
  return next;
}

std::vector<WantedPartition> wanted(const PartitionBook& book) {
  std::vector<WantedPartition> list;
  for (const auto& one : book.partitions) {
    const auto chunks = static_cast<std::uint32_t>(one.slots.size()) * book.per_slot;
    list.push_back({book.uuid, chunks, chunks * book.chunk_sms, one.partition});
  }
  return list;
}

void settle(PartitionBook& book, const std::vector<PartitionRow>& rows) {
  // A name that was promised and is there again, with the same size, is the promised one's before anybody else's.
  auto list = wanted(book);
  const auto is_there = [&](const std::string& name) {
    return std::ranges::any_of(rows, [&](const PartitionRow& row) { return row.partition == name; });
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const auto& promised = book.partitions[i].promised; !promised.empty() && is_there(promised))
      list[i].partition = promised;
  }
  const auto found = matched(list, rows);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto at = found[i];
    book.partitions[i].partition = at ? rows[*at].partition.value_or("") : std::string();
  }
}

std::vector<std::string> broken_promises(const PartitionBook& book) {
  std::vector<std::string> broken;
  for (const auto& one : book.partitions) {
    if (!one.promised.empty() && !one.partition.empty() && one.promised != one.partition)
      broken.push_back(book.uuid + "/" + one.promised);
  }
  return broken;
}

std::string render_book(const PartitionBook& book) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& one : book.partitions)
    list.push_back({{"slots", one.slots}, {"partition", one.partition}, {"promised", one.promised}});
  const nlohmann::ordered_json document{{"uuid", book.uuid},
                                        {"slots", book.slots},
                                        {"chunksPerSlot", book.per_slot},
                                        {"smsPerChunk", book.chunk_sms},
                                        {"partitions", std::move(list)}};
  return json_text(document) + "\n";
}

Result<PartitionBook> parse_book(std::string_view json) {
  const Json document = json_of(json);
  if (!document.is_object()) return bad_book("it is not a JSON object");
  const auto uuid = document.find("uuid");
  if (uuid == document.end() || !uuid->is_string()) return bad_book("\"uuid\" must be a text");
  PartitionBook book;
  book.uuid = uuid->get<std::string>();
  if (!parse_partition_id(book.uuid + "/x")) return bad_book("\"uuid\" must name a GPU, not " + in_quotes(book.uuid));
  TRY(book.slots, number_at(document, "slots", kMostSlots));
  TRY(book.per_slot, number_at(document, "chunksPerSlot", kMostChunks));
  TRY(book.chunk_sms, number_at(document, "smsPerChunk", kMostChunks));
  const auto list = document.find("partitions");
  if (list == document.end() || !list->is_array()) return bad_book("\"partitions\" must be a list");
  std::set<std::uint32_t> seen;
  for (const auto& one : *list) {
    TRY(auto partition, read_partition(one, book, seen));
    book.partitions.push_back(std::move(partition));
  }
  if (seen.size() != book.slots)
    return bad_book(fmt::format("{} of {} slots are in a partition", seen.size(), book.slots));
  sort_by_first_slot(book);
  return book;
}

}  // namespace tranche::mps
