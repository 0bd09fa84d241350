#include "agent/mps/partition_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "host/files/kept.h"
#include "host/log/log.h"
#include "mps/room.h"

namespace tranche::agent {
namespace {

constexpr const char* kJournal = "partitions.json";

}  // namespace

Result<std::unique_ptr<PartitionKeeper>> PartitionKeeper::open(const std::string& directory, mps::PartitionBook planned,
                                                               Change change) {
  auto dir = host::Dir::create(directory);
  if (!dir) return std::unexpected(within(std::move(dir).error(), "cannot keep the pool's SM partitions"));
  std::unique_ptr<PartitionKeeper> keeper(new PartitionKeeper(*std::move(dir), std::move(planned), std::move(change)));
  keeper->read_journal();
  return keeper;
}

void PartitionKeeper::read_journal() {
  const auto text = directory_.read(kJournal);
  if (!text && text.error().kind == Kind::kNotFound) return;
  auto book = text ? mps::parse_book(*text) : std::unexpected(text.error());
  if (book && book->uuid == planned_.uuid) {
    kept_ = *book;
    book_ = *std::move(book);
    return;
  }
  log::warning("partitions.forgotten",
               {{"file", directory_.path() + "/" + kJournal},
                {"why", book ? "it is another GPU's" : to_string(book.error())},
                {"effect", "containers from before may hold partitions that are another's by now: start them anew"}});
}

Status PartitionKeeper::keep() {
  if (kept_ == book_) return {};
  const auto written = host::write_kept(directory_, kJournal, mps::render_book(book_), 0644);
  if (written) kept_ = book_;
  return written;
}

bool PartitionKeeper::plan(mps::PartitionBook planned, bool unused) {
  planned_ = std::move(planned);
  if (mps::is_cut_alike(planned_, book_) || !unused || joining_) return false;
  book_ = planned_;
  return true;
}

std::string PartitionKeeper::note() const {
  std::string text;
  if (!mps::is_cut_alike(planned_, book_))
    text = fmt::format("the GPU is cut for {} slots of {} chunks until no grant of before is left", book_.slots,
                       book_.per_slot);
  if (const auto broken = mps::broken_promises(book_); !broken.empty()) {
    text += text.empty() ? "" : "; ";
    text +=
        "the daemon gave other names to SM partitions when it made them again: start the containers anew that have " +
        join(broken, ", ");
  }
  return text;
}

void PartitionKeeper::look(const mps::Supervisor& now) {
  if (joining_ || now.state != mps::State::kServing || !now.read_back) return;
  mps::settle(book_, now.read_back->partitions);
  if (const auto kept = keep(); !kept) log::warning("partitions.not_kept", {{"why", kept.error()}});
}

void PartitionKeeper::promise(const mps::Slots& slots, const Done& done) {
  auto* one = mps::find_partition(book_, slots);
  one->promised = one->partition;
  // A name that would be forgotten by our next start is not given away.
  if (const auto kept = keep(); !kept) return done(std::unexpected(within(kept.error(), "cannot promise a partition")));
  done(mps::to_string(mps::PartitionId{book_.uuid, one->partition}));
}

void PartitionKeeper::give(mps::Slots slots, const mps::Supervisor& now, Done done) {
  const auto refuse = [&](Kind kind, const std::string& why) { done(fail(kind, why, book_.uuid)); };
  if (slots.empty())
    return refuse(Kind::kInvalid,
                  "clients of this pool need an SM partition, and the request names no slots; do tranche node and "
                  "tranche mps run one release?");
  std::ranges::sort(slots);
  if (joining_) return refuse(Kind::kUnavailable, "SM partitions of this GPU are being joined; ask again");
  if (now.state != mps::State::kServing)
    return refuse(Kind::kUnavailable, "the MPS daemon of this pool does not serve, and has no SM partitions to give");
  if (const auto* one = mps::find_partition(book_, slots); one != nullptr && !one->partition.empty())
    return promise(slots, done);
  auto next = mps::regrouped(book_, slots);
  if (!next) return done(std::unexpected(next.error()));
  if (const auto live = mps::live_clients(now); live > 0)
    return refuse(
        Kind::kUnavailable,
        fmt::format("{} need a partition of their own, which is made only while no client runs on the GPU, "
                    "and {} run there; ask for one slot, or ask again when they have ended",
                    slots.size() == 1 ? "slots that were joined before" : fmt::format("{} slots", slots.size()), live));
  joining_ = true;
  change_(mps::wanted(*next),
          [this, next = *next, slots, done = std::move(done)](const Result<std::vector<mps::PartitionRow>>& rows) {
            joining_ = false;
            if (!rows)
              return done(std::unexpected(within(
                  rows.error(), fmt::format("the MPS daemon would not make one partition of {} slots", slots.size()))));
            book_ = next;
            mps::settle(book_, *rows);
            promise(slots, done);
          });
}

}  // namespace tranche::agent
