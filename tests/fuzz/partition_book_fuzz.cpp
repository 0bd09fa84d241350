// The book of SM partitions: a book that is read is written as it was read, and holds every slot once, also after a
// partition was asked for.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/partition_book.h"

using namespace tranche;

namespace {

void check(const mps::PartitionBook& book) {
  std::size_t slots = 0;
  for (const auto& one : book.partitions) slots += one.slots.size();
  if (slots != book.slots) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto book = mps::parse_book(text);
  if (!book) return 0;
  check(*book);
  const auto again = mps::parse_book(mps::render_book(*book));
  if (!again || *again != *book) std::abort();
  const auto joined = mps::regrouped(*book, {0, book->slots - 1});
  if (joined && book->slots > 1) check(*joined);
  return 0;
}
