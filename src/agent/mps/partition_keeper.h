#pragma once
// The SM partitions of one pool in the static tier: keeps the book (mps/partition_book.h) on disk, so that a slot means
// the same partition after a restart of ours, and gives a container its partition's name. Several slots become one
// partition only while no client runs on the GPU, which is when the daemon makes partitions; asked for at another time,
// and when the daemon refuses, the request is refused with a sentence. Loop thread only.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/files/files.h"
#include "mps/partition_book.h"
#include "mps/supervisor.h"

namespace tranche::agent {

class PartitionKeeper {
 public:
  // The whole name, "GPU-…/xxxxx", as the client's variable takes it.
  using Done = std::function<void(Result<std::string>)>;
  // Has the daemon make these instead of those of now, in service; done comes once, with what it lists then.
  using Change = std::function<void(const std::vector<mps::WantedPartition>&,
                                    std::function<void(Result<std::vector<mps::PartitionRow>>)> done)>;

  // The book of before in `directory` counts, also when it is cut in another way than `planned`; one that cannot be
  // read is replaced, and said in the log.
  static Result<std::unique_ptr<PartitionKeeper>> open(const std::string& directory, mps::PartitionBook planned,
                                                       Change change);

  std::vector<mps::WantedPartition> wanted() const { return mps::wanted(book_); }
  // The plan's cut, which may have changed; it is taken over when nobody holds a slot (`unused`). true: it was, and
  // the daemon is to be told.
  bool plan(mps::PartitionBook planned, bool unused);
  void look(const mps::Supervisor& now);  // after every change of it
  // done comes once, at once or in a later turn.
  void give(mps::Slots slots, const mps::Supervisor& now, Done done);

  const mps::PartitionBook& book() const { return book_; }
  std::string note() const;  // what people should know; "" = nothing

 private:
  PartitionKeeper(host::Dir directory, mps::PartitionBook planned, Change change)
      : directory_(std::move(directory)), planned_(std::move(planned)), book_(planned_), change_(std::move(change)) {}
  void read_journal();
  Status keep();  // in the journal, if it changed
  void promise(const mps::Slots& slots, const Done& done);

  host::Dir directory_;
  mps::PartitionBook planned_;
  mps::PartitionBook book_;
  std::optional<mps::PartitionBook> kept_;  // as the journal has it
  Change change_;
  bool joining_ = false;
};

}  // namespace tranche::agent
