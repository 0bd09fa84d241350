#pragma once
// Which events to send to the API server, and when. Repetitions about the same object become one event with a count; an
// event repeats another if object, reason and the message without its numbers are equal. Limits: a burst of 5 and then
// one every 10 seconds per object, and 10 per second in all; waiting events are merged, and those that exceed the queue
// are dropped, counted and named. This class decides what to send and receives the results: no connection, no clock.
// Pure. One thread.
//
// An event is sent once and may arrive late or never: no function may depend on it.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/backoff.h"
#include "base/time.h"
#include "kube/event_json.h"

namespace tranche::kube {

struct EventSettings {
  std::string node;  // the reporting instance
  std::size_t most_waiting = 256;
  std::uint64_t seed = 1;
};

struct EventCall {
  bool create = true;  // POST, or PATCH of an existing event
  std::string path;    // "/api/v1/namespaces/default/events…"
  std::string body;
};

struct EventReport {
  std::uint64_t emitted = 0;
  std::uint64_t sent = 0;     // requests that the server accepted
  std::uint64_t dropped = 0;  // never sent
  std::string last_dropped;   // "Pod default/a GuardActed: too many wait"
  std::size_t waiting = 0;
  std::string problem;  // of the last request, "" if it was accepted
  friend bool operator==(const EventReport&, const EventReport&) = default;
};

class EventQueue {
 public:
  explicit EventQueue(EventSettings settings);

  void emit(const ObjectRef& about, const Reason& reason, const std::string& message, MonoTime now, WallTime wall);

  // The next request, if one is due; at most one is in progress.
  std::optional<EventCall> take(MonoTime now);
  // The API server's response to it: its HTTP status, 0 if there was none.
  void done(int http_status, const std::string& why, MonoTime now);
  // When take() may next return a request.
  std::optional<MonoTime> next(MonoTime now) const;

  const EventReport& report() const { return report_; }

 private:
  using Key = std::tuple<ObjectRef, std::string, std::string>;  // about, reason, class of message
  struct Entry {
    bool warning = false;
    std::string message;  // of the newest repetition
    std::uint64_t count = 1;
    WallTime first{};
    WallTime last{};
    std::string name = {};  // in the API server
    bool created = false;
    bool waiting = true;
    MonoTime used{};
  };
  struct UnderWay {
    bool create = true;
    Key key;
  };
  MonoTime allowed(const ObjectRef& about) const;  // when the next event about it
  std::string body_of(const Key& key, const Entry& entry) const;
  void drop(const Key& key, const char* why);
  void forget_old(MonoTime now);

  EventSettings settings_;
  std::map<Key, Entry> entries_;
  std::deque<Key> queue_;  // waiting events, oldest first
  // When what was sent no longer counts against the limit: each event adds an interval, and a burst may be that far
  // ahead.
  std::map<ObjectRef, MonoTime> spent_until_;
  MonoTime all_spent_until_{};
  Backoff backoff_;
  std::optional<MonoTime> wait_until_;
  std::optional<UnderWay> under_way_;
  std::uint64_t named_ = 0;  // events, so that no two have the same name
  EventReport report_;
};

// The message without its numbers, which vary between repetitions: "pid 71 used 9000 MiB" and "pid 8 used 20 MiB" are
// the same. Words that merely contain digits (names, UUIDs) are kept.
std::string class_of_message(std::string_view message);

}  // namespace tranche::kube
