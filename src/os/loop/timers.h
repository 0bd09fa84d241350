#pragma once
// The loop's timers: a heap by deadline; equal deadlines keep the order in which they were added. Reads no clock: its
// owner asks for the earliest deadline and takes due timers. Pure data structure, one thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/time.h"

namespace tranche::os {

class Timers {
 public:
  using Id = std::uint64_t;

  void add(Id id, MonoTime deadline, std::function<void()> turn);
  bool cancel(Id id);
  std::optional<MonoTime> earliest();
  // Removes and returns the next timer that is due at `now` and whose id is below `limit`; {} if there is none. The
  // limit leaves timers that are added by timers to the next round, so that a chain of zero delays cannot starve other
  // events.
  std::function<void()> take_due(MonoTime now, Id limit);
  std::size_t size() const { return turns_.size(); }
  void clear();

 private:
  struct Entry {
    MonoTime deadline;
    Id id = 0;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.deadline != b.deadline ? a.deadline > b.deadline : a.id > b.id;
  }
  void drop_cancelled();

  std::vector<Entry> heap_;  // may hold entries of cancelled timers
  std::unordered_map<Id, std::function<void()>> turns_;
};

}  // namespace tranche::os
