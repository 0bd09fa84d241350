#pragma once
// Events: their reasons and objects, and which of them to send to the API server, and when. Repetitions about the same
// object become one event with a count; an event repeats another if object, reason and the message without its numbers
// are equal. Limits: a burst of 5 and then one every 10 seconds per object, and 10 per second in all; waiting events
// are merged, and those that exceed the queue are dropped, counted and named. This class decides what to send and
// receives the results: no connection, no clock. Pure. One thread.
//
// An event is sent once and may arrive late or never: no function may depend on it.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/time.h"
#include "os/clock/clock.h"

namespace tranche::kube {

// The reasons of all events that Tranche sends. docs/reference/events.md says what each means; a test compares the two.
struct Reason {
  std::string_view name;
  bool warning = false;
};

inline constexpr Reason kGpuUnhealthy{"GpuUnhealthy", true};
inline constexpr Reason kGpuHealthy{"GpuHealthy", false};
inline constexpr Reason kMpsPoolDown{"MpsPoolDown", true};
inline constexpr Reason kMpsPoolServing{"MpsPoolServing", false};
inline constexpr Reason kPagesNotServed{"PagesNotServed", true};
inline constexpr Reason kGuardActed{"GuardActed", true};
inline constexpr Reason kMpsLimitNotUnderstood{"MpsLimitNotUnderstood", true};
inline constexpr Reason kMpsLimitWithoutEffect{"MpsLimitWithoutEffect", false};
inline constexpr Reason kMpsFault{"MpsFault", true};
inline constexpr Reason kMpsTwoPools{"MpsTwoPools", true};
inline constexpr Reason kNeighbourAtRisk{"NeighbourAtRisk", true};
inline constexpr Reason kConfigRefused{"ConfigRefused", true};
inline constexpr Reason kConfigApplied{"ConfigApplied", false};
inline constexpr Reason kMigChanged{"MigChanged", false};
inline constexpr Reason kMigWaiting{"MigWaiting", false};
inline constexpr Reason kMigFailed{"MigFailed", true};
inline constexpr Reason kMigEviction{"MigEviction", false};

// The object of an event.
struct ObjectRef {
  std::string kind;              // "Pod", "Node", "ResourceClaim"
  std::string object_namespace;  // "" for a node
  std::string name;
  std::string uid;
  friend auto operator<=>(const ObjectRef&, const ObjectRef&) = default;

  // The uid is the name, where `kubectl describe node` looks.
  static ObjectRef node(const std::string& name) { return {"Node", "", name, name}; }
  static ObjectRef pod(std::string pod_namespace, std::string name, std::string uid) {
    return {"Pod", std::move(pod_namespace), std::move(name), std::move(uid)};
  }
};

inline constexpr std::size_t kLongestMessage = 1024;  // the API server's limit

// "2025-03-04T12:01:02Z"
inline std::string utc_seconds(WallTime time) {
  return os::utc_text(time).substr(0, std::string_view("2025-03-04T12:01:02").size()) + "Z";
}

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

  EventReport report() const {
    EventReport report = report_;
    report.waiting = queue_.size();
    return report;
  }

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
  std::optional<Key> under_way_;
  std::uint64_t named_ = 0;  // events, so that no two have the same name
  EventReport report_;       // without `waiting`
};

// The message without its numbers, which vary between repetitions: "pid 71 used 9000 MiB" and "pid 8 used 20 MiB" are
// the same. Words that merely contain digits (names, UUIDs) are kept.
std::string class_of_message(std::string_view message);

}  // namespace tranche::kube
