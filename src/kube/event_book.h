#pragma once
// Which events go to the API server, and when. The same news about the same object becomes one event with a count;
// "the same" is object, reason and the message without its numbers. At most a burst of 5 and then one every 10 seconds
// about one object, and 10 a second in all; what waits for its turn is merged, and what does not fit any more is
// dropped, counted and named. Says what to send and is told what came of it: no connection, no clock. Pure. One thread.
//
// An event is told once and may come late or never: nothing may depend on it.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/backoff.h"
#include "base/time.h"
#include "kube/event_json.h"
#include "kube/reasons.h"

namespace tranche::kube {

struct EventSettings {
  std::string node;  // the reporting instance
  double burst = 5;
  Duration every = std::chrono::seconds(10);
  double all_per_second = 10;
  Duration same_within = std::chrono::minutes(60);  // then the same news is a new event
  std::size_t most_waiting = 256;
  std::size_t most_known = 1024;  // events that a later one may be merged into
  std::uint64_t seed = 1;
};

struct EventCall {
  std::uint64_t id = 0;
  bool create = true;  // POST, or PATCH of an event that is there
  std::string path;    // "/api/v1/namespaces/default/events…"
  std::string body;
};

struct EventReport {
  std::uint64_t told = 0;
  std::uint64_t sent = 0;     // requests that were taken
  std::uint64_t merged = 0;   // into one that waited
  std::uint64_t dropped = 0;  // never sent
  std::string last_dropped;   // "Pod default/a GuardActed: too many wait"
  std::size_t waiting = 0;
  std::string problem;  // of the last request, "" when it was taken
  friend bool operator==(const EventReport&, const EventReport&) = default;
};

class EventBook {
 public:
  explicit EventBook(EventSettings settings);

  void tell(const ObjectRef& about, const Reason& reason, const std::string& message, MonoTime now, WallTime wall);

  // The next request, when one is due; at most one is under way.
  std::optional<EventCall> take(MonoTime now);
  // What the API server answered: its HTTP status, 0 when there was no answer.
  void done(std::uint64_t id, int http_status, const std::string& why, MonoTime now);
  // When take() may have something that it had not now.
  std::optional<MonoTime> next(MonoTime now) const;

  const EventReport& report() const { return report_; }

 private:
  using Key = std::tuple<ObjectRef, std::string, std::string>;  // about, reason, class of message
  struct Entry {
    EventRecord event;
    std::string name;  // in the API server
    bool created = false;
    bool waiting = false;
    MonoTime used{};
  };
  struct Bucket {
    double tokens = 0;
    MonoTime filled{};
  };
  struct UnderWay {
    std::uint64_t id = 0;
    bool create = true;
    Key key;
  };
  double per_object_second() const;
  Bucket& bucket_of(const ObjectRef& about, MonoTime now);
  static void fill(Bucket& bucket, double most, double per_second, MonoTime now);
  Duration until_token(const Bucket& bucket, double most, double per_second, MonoTime now) const;
  void drop(const Key& key, const char* why);
  void forget_old(MonoTime now);

  EventSettings settings_;
  std::map<Key, Entry> entries_;
  std::deque<Key> queue_;  // those that wait, oldest first
  std::map<ObjectRef, Bucket> buckets_;
  Bucket all_;
  Backoff backoff_;
  std::optional<MonoTime> wait_until_;
  std::optional<UnderWay> under_way_;
  std::uint64_t next_id_ = 1;
  EventReport report_;
};

// The message without its numbers, which differ from one time to the next: "pid 71 used 9000 MiB" and "pid 8 used 20
// MiB" are the same news. Words that merely hold digits (names, UUIDs) stay as they are.
std::string class_of_message(std::string_view message);

}  // namespace tranche::kube
